/* The inner loops of greedy.py, which describes them: bits of a batch of anchors, and bits of rows that are no anchors.

   Sums run in another order than in NumPy. Those of bits are whole numbers, exact in single precision below 2^24, and
   so are the others where similarities are whole: the codes are the same. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_processors.h"

#define ROUNDING 1e-12 /* as in problem.py */

/* Sums of this many neighboring rows run side by side. Compilers keep loops of this constant length in vector registers;
   GCC takes shorter ones (16) apart into single numbers, which is 8 times as slow. */
enum { SPAN = 32 };

typedef struct {
    float *bits;            /* [bit][row], -1 or +1 */
    const int64_t *kinds;   /* [row] */
    const int64_t *columns; /* [row], -1 for a row that is no anchor */
    const double *table;    /* [row kind][column kind]; with ``classes`` S within a class and S between classes */
    double *pull;           /* [bit][row kind]; with ``classes`` the sums of each class, and after them that of all */
    double *gram;           /* [bit][bit] */
    double scale, beta;
    Py_ssize_t n_bits, n_rows, n_kinds, n_columns, n_sums;
    int stagewise, inner_iter, classes;
} Batch;

typedef struct {
    double *gain, *moved, *strength; /* [row] */
    double *pull;                    /* [row kind] */
    double *gram;                    /* [bit] */
    float *step;                     /* [row], what is added to the bits of those that flip */
    float *others;                   /* [row], what the other bits already give */
    float *weights;                  /* [bit] */
    Py_ssize_t *flips;               /* [row] */
} Room;

/* Sums of ``rest`` lines of bits by weight, for SPAN neighboring rows. */
ALWAYS_INLINE
static inline void weighted_sums(const float *weights, const float *bits, Py_ssize_t stride, Py_ssize_t rest, float *result) {
    float sums[SPAN] = {0};
    for (Py_ssize_t k = 0; k < rest; k++)
        for (int c = 0; c < SPAN; c++) sums[c] += weights[k] * bits[k * stride + c];
    memcpy(result, sums, sizeof sums);
}

FOR_EACH_PROCESSOR
static void gains(const Batch *batch, Room *room, const double *pull, const double *gram, Py_ssize_t rest, double *gain) {
    Py_ssize_t n = batch->n_rows, i = 0;
    for (Py_ssize_t k = 0; k < rest; k++) room->weights[k] = (float)gram[k];
    for (; i + SPAN <= n; i += SPAN) weighted_sums(room->weights, batch->bits + i, n, rest, room->others + i);
    if (i < n && n >= SPAN) { /* the last rows once more, together with those that are left */
        i = n - SPAN;
        weighted_sums(room->weights, batch->bits + i, n, rest, room->others + i);
        i = n;
    }
    for (; i < n; i++) {
        room->others[i] = 0;
        for (Py_ssize_t k = 0; k < rest; k++) room->others[i] += room->weights[k] * batch->bits[k * n + i];
    }
    if (batch->classes) {
        double within = batch->table[0] - batch->table[1], all = batch->table[1] * pull[batch->n_kinds];
        for (i = 0; i < n; i++) gain[i] = batch->scale * (within * pull[batch->kinds[i]] + all) - room->others[i];
    } else
        for (i = 0; i < n; i++) gain[i] = batch->scale * pull[batch->kinds[i]] - room->others[i];
}

/* Add the steps of ``flips`` to the sums of their classes (sign 1), or take them back (sign -1). They are whole numbers,
   so nothing is lost, and no other class is touched. */
static void step_classes(const Batch *batch, const Room *room, double *pull, Py_ssize_t n_flips, double sign) {
    for (Py_ssize_t f = 0; f < n_flips; f++) {
        double step = sign * room->step[room->flips[f]];
        pull[batch->columns[room->flips[f]]] += step;
        pull[batch->n_kinds] += step;
    }
}

/* The sums that the anchors ``flips`` of bit j would leave. */
FOR_EACH_PROCESSOR
static void flipped_sums(const Batch *batch, Room *room, Py_ssize_t j, Py_ssize_t n_flips) {
    double *pull = batch->pull + j * batch->n_sums;
    if (batch->classes) step_classes(batch, room, pull, n_flips, 1);
    for (Py_ssize_t r = 0; !batch->classes && r < batch->n_kinds; r++) {
        const double *row = batch->table + r * batch->n_columns;
        double sum = 0;
        for (Py_ssize_t f = 0; f < n_flips; f++) sum += row[batch->columns[room->flips[f]]] * room->step[room->flips[f]];
        room->pull[r] = pull[r] + sum;
    }
    for (Py_ssize_t k = 0; k < batch->n_bits; k++) {
        const float *bits = batch->bits + k * batch->n_rows;
        float sums[SPAN] = {0}, sum = 0;
        Py_ssize_t i = 0;
        for (; i + SPAN <= batch->n_rows; i += SPAN)
            for (int c = 0; c < SPAN; c++) sums[c] += bits[i + c] * room->step[i + c];
        for (; i < batch->n_rows; i++) sum += bits[i] * room->step[i];
        for (int c = 0; c < SPAN; c++) sum += sums[c];
        room->gram[k] = batch->gram[j * batch->n_bits + k] + sum;
    }
    room->gram[j] = 0;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Keep those of the flips whose |gain| is above the median. */
static Py_ssize_t strongest_half(Room *room, Py_ssize_t n_flips) {
    for (Py_ssize_t f = 0; f < n_flips; f++) room->strength[f] = fabs(room->gain[room->flips[f]]);
    qsort(room->strength, n_flips, sizeof *room->strength, ascending);
    double median = (room->strength[(n_flips - 1) / 2] + room->strength[n_flips / 2]) / 2;
    Py_ssize_t kept = 0;
    for (Py_ssize_t f = 0; f < n_flips; f++)
        if (fabs(room->gain[room->flips[f]]) > median) room->flips[kept++] = room->flips[f];
    return kept;
}

/* True when something changed. */
static int update_bit(Batch *batch, Room *room, Py_ssize_t j) {
    float *own = batch->bits + j * batch->n_rows;
    double *gram = batch->gram + j * batch->n_bits, *pull = batch->pull + j * batch->n_sums;
    const double *moved_pull = batch->classes ? pull : room->pull;
    Py_ssize_t rest = batch->stagewise ? j : batch->n_bits;
    int changed = 0;
    gains(batch, room, pull, gram, rest, room->gain);
    for (int round = 0; round < batch->inner_iter; round++) {
        Py_ssize_t n_flips = 0;
        for (Py_ssize_t i = 0; i < batch->n_rows; i++) {
            int flips = (room->gain[i] + batch->beta * own[i] >= 0) != (own[i] > 0), anchor = batch->columns[i] >= 0;
            /* No branches where which way they go is a matter of chance. */
            room->flips[n_flips] = i;
            n_flips += flips & anchor;
            int alone = flips & !anchor;
            own[i] = alone ? -own[i] : own[i];
            changed |= alone;
        }
        int accepted = 0;
        while (n_flips && !accepted) {
            memset(room->step, 0, batch->n_rows * sizeof(float));
            for (Py_ssize_t f = 0; f < n_flips; f++) room->step[room->flips[f]] = -2 * own[room->flips[f]];
            flipped_sums(batch, room, j, n_flips);
            gains(batch, room, moved_pull, room->gram, rest, room->moved);
            double gained = 0, size = 0;
            for (Py_ssize_t i = 0; i < batch->n_rows; i++) {
                gained += room->step[i] * (room->gain[i] + room->moved[i]);
                size += fabsf(room->step[i]) * (fabs(room->gain[i]) + fabs(room->moved[i]));
            }
            accepted = gained >= -ROUNDING * size;
            if (!accepted && batch->classes) step_classes(batch, room, pull, n_flips, -1);
            if (!accepted) n_flips = strongest_half(room, n_flips);
        }
        if (!accepted) return changed;
        changed = 1;
        if (!batch->classes) memcpy(pull, room->pull, batch->n_kinds * sizeof(double));
        memcpy(gram, room->gram, batch->n_bits * sizeof(double));
        for (Py_ssize_t k = 0; k < batch->n_bits; k++) batch->gram[k * batch->n_bits + j] = room->gram[k];
        for (Py_ssize_t i = 0; i < batch->n_rows; i++) own[i] += room->step[i];
        double *gain = room->gain;
        room->gain = room->moved;
        room->moved = gain;
    }
    return changed;
}

PyDoc_STRVAR(update_batch_doc,
"update_batch(bits, kinds, columns, table, pull, gram, scale, beta, stagewise, inner_iter, classes)\n\n"
"Move all bits (bits, rows) of a batch, and pull (bits, row kinds) and gram (bits, bits) with them, in place;\n"
"True when a bit changed. With classes, table is S within a class and between classes, pull (bits, classes + 1) are\n"
"the sums of the anchors by class and over all classes, and kinds and columns are both numbers of classes. Arrays are C-contiguous: bits of float32, kinds and columns of int64, others of float64.\n"
"Anchors times bits must be below 2^24.");

static PyObject *update_batch(PyObject *self, PyObject *args) {
    Py_buffer bits, kinds, columns, table, pull, gram;
    Batch batch = {0};
    if (!PyArg_ParseTuple(args, "w*y*y*y*w*w*ddpip", &bits, &kinds, &columns, &table, &pull, &gram, &batch.scale,
                          &batch.beta, &batch.stagewise, &batch.inner_iter, &batch.classes))
        return NULL;
    const Py_ssize_t size = sizeof(double);
    const Py_ssize_t bit = sizeof(float);
    Py_ssize_t rows = kinds.len / size, n_bits = rows ? bits.len / bit / rows : 0;
    Py_ssize_t n_sums = n_bits ? pull.len / size / n_bits : 0, n_kinds = batch.classes ? n_sums - 1 : n_sums;
    Py_ssize_t n_columns = n_kinds < 1 ? 0 : batch.classes ? n_kinds : table.len / size / n_kinds;
    Py_ssize_t n_values = batch.classes ? 2 : n_kinds * n_columns;
    int sound = n_bits > 0 && n_columns > 0 && bits.len == rows * n_bits * bit && columns.len == kinds.len &&
                pull.len == n_bits * n_sums * size && table.len == n_values * size &&
                gram.len == n_bits * n_bits * size;
    for (Py_ssize_t i = 0; sound && i < rows; i++) {
        int64_t kind = ((int64_t *)kinds.buf)[i], column = ((int64_t *)columns.buf)[i];
        sound = 0 <= kind && kind < n_kinds && column < n_columns;
    }
    double *room_memory = sound ? malloc((3 * rows + n_kinds + n_bits) * size + (2 * rows + n_bits) * bit) : NULL;
    Py_ssize_t *places = sound ? malloc(rows * sizeof *places) : NULL;
    int ready = room_memory && places, changed = 0;
    if (ready) {
        Py_BEGIN_ALLOW_THREADS
        batch.bits = bits.buf, batch.kinds = kinds.buf, batch.columns = columns.buf, batch.table = table.buf;
        batch.pull = pull.buf, batch.gram = gram.buf;
        batch.n_bits = n_bits, batch.n_rows = rows, batch.n_kinds = n_kinds, batch.n_columns = n_columns;
        batch.n_sums = n_sums;
        double *next = room_memory;
        Room room = {.flips = places};
        room.gain = next, room.moved = next += rows, room.strength = next += rows;
        room.pull = next += rows, room.gram = next += n_kinds;
        room.step = (float *)(next + n_bits), room.others = room.step + rows, room.weights = room.others + rows;
        for (Py_ssize_t j = 0; j < n_bits; j++) changed |= update_bit(&batch, &room, j);
        Py_END_ALLOW_THREADS
    }
    free(room_memory);
    free(places);
    PyBuffer_Release(&bits);
    PyBuffer_Release(&kinds);
    PyBuffer_Release(&columns);
    PyBuffer_Release(&table);
    PyBuffer_Release(&pull);
    PyBuffer_Release(&gram);
    if (!sound) return PyErr_Format(PyExc_ValueError, "The arrays do not fit each other.");
    if (!ready) return PyErr_NoMemory();
    return PyBool_FromLong(changed);
}

/* SPAN rows, side by side; true when a sweep over all bits has moved one. */
FOR_EACH_PROCESSOR
static int sweep(float *bits, const double *scaled, const float *gram, Py_ssize_t n_bits, double beta, int stagewise) {
    int changed = 0;
    for (Py_ssize_t j = 0; j < n_bits; j++) {
        float others[SPAN], *own = bits + j * SPAN;
        weighted_sums(gram + j * n_bits, bits, SPAN, stagewise ? j : n_bits, others);
        for (int lane = 0; lane < SPAN; lane++) {
            double gain = scaled[j * SPAN + lane] - others[lane];
            float moved = gain + beta * own[lane] >= 0 ? 1.0f : -1.0f;
            changed |= moved != own[lane];
            own[lane] = moved;
        }
    }
    return changed;
}

PyDoc_STRVAR(code_rows_doc,
"code_rows(codes, group, scaled, gram, beta, stagewise, max_iter)\n\n"
"Move the bits of rows that do not influence each other, float32 codes (rows, bits) of -1 and +1, in place.\n"
"scaled float64 (groups, bits); gram float32 (bits, bits) with a zero diagonal; group int64 (rows,).");

static PyObject *code_rows(PyObject *self, PyObject *args) {
    Py_buffer codes, group, scaled, gram;
    double beta;
    int stagewise, max_iter;
    if (!PyArg_ParseTuple(args, "w*y*y*y*dpi", &codes, &group, &scaled, &gram, &beta, &stagewise, &max_iter))
        return NULL;
    Py_ssize_t rows = group.len / (Py_ssize_t)sizeof(int64_t);
    Py_ssize_t n_bits = rows ? codes.len / rows / (Py_ssize_t)sizeof(float) : 0;
    Py_ssize_t n_groups = n_bits ? scaled.len / n_bits / (Py_ssize_t)sizeof(double) : 0;
    int sound = rows == 0 || (n_bits > 0 && codes.len == rows * n_bits * (Py_ssize_t)sizeof(float) &&
                              gram.len == n_bits * n_bits * (Py_ssize_t)sizeof(float) &&
                              scaled.len == n_groups * n_bits * (Py_ssize_t)sizeof(double));
    const int64_t *of = group.buf;
    for (Py_ssize_t i = 0; sound && i < rows; i++) sound = 0 <= of[i] && of[i] < n_groups;
    float *bits = sound ? malloc((n_bits + 1) * SPAN * sizeof *bits) : NULL;
    double *own = sound ? malloc((n_bits + 1) * SPAN * sizeof *own) : NULL;
    int ready = bits && own;
    if (ready) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t first = 0; first < rows; first += SPAN) {
            Py_ssize_t count = rows - first < SPAN ? rows - first : SPAN;
            float *code = (float *)codes.buf + first * n_bits;
            for (Py_ssize_t lane = 0; lane < SPAN; lane++) {
                /* Lanes without a row repeat the last one. */
                Py_ssize_t row = lane < count ? lane : count - 1;
                const double *line = (const double *)scaled.buf + of[first + row] * n_bits;
                for (Py_ssize_t j = 0; j < n_bits; j++) {
                    bits[j * SPAN + lane] = code[row * n_bits + j];
                    own[j * SPAN + lane] = line[j];
                }
            }
            for (int round = 0; round < max_iter; round++)
                if (!sweep(bits, own, gram.buf, n_bits, beta, stagewise)) break;
            for (Py_ssize_t lane = 0; lane < count; lane++)
                for (Py_ssize_t j = 0; j < n_bits; j++) code[lane * n_bits + j] = bits[j * SPAN + lane];
        }
        Py_END_ALLOW_THREADS
    }
    free(bits);
    free(own);
    PyBuffer_Release(&codes);
    PyBuffer_Release(&group);
    PyBuffer_Release(&scaled);
    PyBuffer_Release(&gram);
    if (!sound) return PyErr_Format(PyExc_ValueError, "The arrays do not fit each other.");
    if (!ready) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"update_batch", update_batch, METH_VARARGS, update_batch_doc},
    {"code_rows", code_rows, METH_VARARGS, code_rows_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_flips", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__flips(void) { return PyModuleDef_Init(&module); }
