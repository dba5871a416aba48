/* The inner loops of general.py, which describes them: slopes of a loss, looked up for every pair of a row and a column.

   ``at`` holds for every pair where the table has the slope at its inner product with all bits. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

#include "_processors.h"

enum { LANES = 4 };

typedef struct {
    const double *table;
    const int32_t *at;  /* [row][column] */
    const int32_t *bit; /* [row], -1 or +1; 0 where the bit is not in the inner products yet */
    int32_t *without;   /* [3][column], what a bit of -1, 0, +1 adds to the inner products, negative */
    int32_t *place;     /* [column], of the slopes of the row at hand */
    Py_ssize_t size, n_rows, n_columns, n_fixed;
} Pairs;

/* False when a place is outside the table, or the bit is none. */
FOR_EACH_PROCESSOR
static int sums_of_row(const Pairs *pairs, const double *weight, Py_ssize_t row, double *pull, double *own) {
    const int32_t *at = pairs->at + row * pairs->n_columns, bit = pairs->bit[row];
    if (bit < -1 || bit > 1) return 0;
    const int32_t *without = pairs->without + (bit + 1) * pairs->n_columns;
    double sums[LANES] = {0};
    Py_ssize_t c;
    uint32_t size = (uint32_t)pairs->size, outside = 0;
    int32_t *place = pairs->place;
    for (c = 0; c < pairs->n_columns; c++) {
        place[c] = at[c] + without[c];
        outside |= (uint32_t)place[c] >= size;
    }
    if (outside) return 0;
    for (c = 0; c + LANES <= pairs->n_fixed; c += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += pairs->table[place[c + lane]] * weight[c + lane];
    for (; c < pairs->n_fixed; c++) sums[0] += pairs->table[place[c]] * weight[c];
    *pull = -(sums[0] + sums[1] + sums[2] + sums[3]);
    for (; c < pairs->n_columns; c++) own[c - pairs->n_fixed] = -pairs->table[place[c]];
    return 1;
}

PyDoc_STRVAR(sums_doc,
"sums(table, at, bit, other, weight, pull, own)\n\n"
"Slopes without one bit: pull (rows,) is minus their sum over the first columns, as many as there are weights; own\n"
"(rows, other columns) is minus the slopes of the rest. float64; at (rows, columns), bit and other are int32.");

static PyObject *sums(PyObject *self, PyObject *args) {
    Py_buffer table, at, bit, other, weight, pull, own;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*w*w*", &table, &at, &bit, &other, &weight, &pull, &own)) return NULL;
    Pairs pairs = {.table = table.buf, .at = at.buf, .bit = bit.buf};
    pairs.size = table.len / (Py_ssize_t)sizeof(double);
    pairs.n_rows = bit.len / (Py_ssize_t)sizeof(int32_t);
    pairs.n_columns = other.len / (Py_ssize_t)sizeof(int32_t);
    pairs.n_fixed = weight.len / (Py_ssize_t)sizeof(double);
    Py_ssize_t n_own = pairs.n_columns - pairs.n_fixed;
    int sound = n_own >= 0 && pairs.size <= INT32_MAX &&
                at.len == pairs.n_rows * pairs.n_columns * (Py_ssize_t)sizeof(int32_t) &&
                pull.len == pairs.n_rows * (Py_ssize_t)sizeof(double) &&
                own.len == pairs.n_rows * n_own * (Py_ssize_t)sizeof(double);
    pairs.without = malloc((4 * pairs.n_columns + 1) * sizeof *pairs.without);
    int ready = pairs.without != NULL;
    if (sound && ready) {
        Py_BEGIN_ALLOW_THREADS
        pairs.place = pairs.without + 3 * pairs.n_columns;
        for (int bit_value = -1; bit_value <= 1; bit_value++)
            for (Py_ssize_t c = 0; c < pairs.n_columns; c++)
                pairs.without[(bit_value + 1) * pairs.n_columns + c] = -bit_value * ((int32_t *)other.buf)[c];
        for (Py_ssize_t row = 0; sound && row < pairs.n_rows; row++)
            sound = sums_of_row(&pairs, weight.buf, row, (double *)pull.buf + row, (double *)own.buf + row * n_own);
        Py_END_ALLOW_THREADS
    }
    free(pairs.without);
    PyBuffer_Release(&table);
    PyBuffer_Release(&at);
    PyBuffer_Release(&bit);
    PyBuffer_Release(&other);
    PyBuffer_Release(&weight);
    PyBuffer_Release(&pull);
    PyBuffer_Release(&own);
    if (!sound) return PyErr_Format(PyExc_ValueError, "The arrays do not fit each other.");
    if (!ready) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

FOR_EACH_PROCESSOR
static void move_row(int32_t *at, Py_ssize_t n, int32_t old, const int32_t *before, int32_t new, const int32_t *after) {
    for (Py_ssize_t c = 0; c < n; c++) at[c] += new *after[c] - old * before[c];
}

PyDoc_STRVAR(move_doc,
"move(at, old, before, new, after)\n\n"
"Add new x after - old x before to ``at``, in place: what a bit that changed adds to the inner products.");

static PyObject *move(PyObject *self, PyObject *args) {
    Py_buffer at, old, before, new, after;
    if (!PyArg_ParseTuple(args, "w*y*y*y*y*", &at, &old, &before, &new, &after)) return NULL;
    Py_ssize_t rows = old.len / (Py_ssize_t)sizeof(int32_t), columns = before.len / (Py_ssize_t)sizeof(int32_t);
    int sound = new.len == old.len && after.len == before.len &&
                at.len == rows * columns * (Py_ssize_t)sizeof(int32_t);
    if (sound) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t row = 0; row < rows; row++) {
            int32_t was = ((int32_t *)old.buf)[row], is = ((int32_t *)new.buf)[row];
            move_row((int32_t *)at.buf + row * columns, columns, was, before.buf, is, after.buf);
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&at);
    PyBuffer_Release(&old);
    PyBuffer_Release(&before);
    PyBuffer_Release(&new);
    PyBuffer_Release(&after);
    if (!sound) return PyErr_Format(PyExc_ValueError, "The arrays do not fit each other.");
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"sums", sums, METH_VARARGS, sums_doc},
    {"move", move, METH_VARARGS, move_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_slopes", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__slopes(void) { return PyModuleDef_Init(&module); }
