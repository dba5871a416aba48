/* One kernel of the scan. _scan.c includes this file once per set of instructions, after it has defined

   NAME(x)            x with the name of the set, LABEL
   TARGET             the attribute of its functions
   COUNTS             a vector type, in which COUNT(x) counts the ones of each byte or of each word of 8 bytes
   SUM(x)             the sum of these counts in each word
   LEAST(a, b)        the smaller one of each pair of words that are less than 2 ** 32
   BYTES              bytes of a register
   LOOK_UP(table, x)  table[x[i]] for every byte x[i] < 16
   LANES(at)          the 16 bytes at `at`, at + 128, ... in the lanes of 16 bytes
   LOW_ZIP, HIGH_ZIP  (a, b): the low or high bytes of each lane of a and b by turns

   Everything else is written with the vectors of GCC and Clang. */

typedef uint8_t NAME(u8) __attribute__((vector_size(BYTES)));
typedef uint16_t NAME(u16) __attribute__((vector_size(BYTES)));
typedef uint64_t NAME(u64) __attribute__((vector_size(BYTES)));

TARGET INLINE NAME(u8) NAME(read)(const void *at) {
    NAME(u8) bytes;
    memcpy(&bytes, at, BYTES);
    return bytes;
}

TARGET INLINE uint64_t NAME(any)(NAME(u64) x) {
    uint64_t all = 0;
    UNROLL for (int i = 0; i < BYTES / 8; i++) all |= x[i];
    return all;
}

TARGET INLINE size_t NAME(near_words)(const uint8_t *words, size_t block, size_t end, const size_t n_words,
                                      const uint64_t *query, uint64_t limit, uint64_t *distances, uint64_t *wanted) {
    for (; block < end; block++) {
        const uint8_t *at = words + block * n_words * PIECE;
        if (n_words == 1) /* these may be the codes themselves */
            UNROLL for (int i = 0; i < PIECE; i += 64) PREFETCH(at + AHEAD + i);
        NAME(u64) least = (NAME(u64)){0} + limit;
        UNROLL for (int i = 0; i < PIECE / BYTES; i++) {
            COUNTS counts = {0}; /* at most 8 per byte and word, so 16 words fit */
            for (size_t word = 0; word < n_words; word++)
                counts += (COUNTS)COUNT((NAME(u64))NAME(read)(at + word * PIECE + BYTES * i) ^ query[word]);
            NAME(u64) sum = (NAME(u64))SUM(counts);
            memcpy(distances + BYTES / 8 * i, &sum, BYTES);
            least = (NAME(u64))LEAST(least, sum);
        }
        if (!NAME(any)(least ^ limit)) continue;
        *wanted = 0;
        for (int row = 0; row < ROWS; row++) *wanted |= (uint64_t)(distances[row] < limit) << row;
        break;
    }
    return block;
}

TARGET static size_t NAME(near)(const uint8_t *words, size_t block, size_t end, size_t n_words, const uint64_t *query,
                                uint64_t limit, uint64_t *distances, uint64_t *wanted) {
    if (n_words == 1) return NAME(near_words)(words, block, end, 1, query, limit, distances, wanted);
    return NAME(near_words)(words, block, end, n_words, query, limit, distances, wanted);
}

/* The losses of one byte per row, by the tables of its high and, after it, its low nibble. */
TARGET INLINE NAME(u8) NAME(losses)(const uint8_t *plane, const uint8_t *table) {
    NAME(u8) bytes = NAME(read)(plane), high = (NAME(u8))((NAME(u16))bytes >> 4) & 15;
    return (NAME(u8))LOOK_UP(table, high) + (NAME(u8))LOOK_UP(table + 16, bytes & 15);
}

TARGET static size_t NAME(likely)(const uint8_t *planes, size_t block, size_t end, size_t n_words, size_t width,
                                  const uint8_t *rounded, uint16_t limit, const uint16_t *start, uint64_t *wanted) {
    for (; block < end; block++) {
        NAME(u8) few[ROWS / BYTES]; /* 255 where the losses are few */
        NAME(u64) any = {0};
        UNROLL for (int part = 0; part < ROWS / BYTES; part++) {
            const uint8_t *plane = planes + block * n_words * PIECE + BYTES * part, *table = rounded;
            NAME(u16) even = {0}, odd = {0};
            if (start) {
                even = (NAME(u16))NAME(read)(start + block * ROWS + BYTES / 2 * part);
                odd = (NAME(u16))NAME(read)(start + block * ROWS + ROWS / 2 + BYTES / 2 * part);
            }
            for (size_t i = 0; i < width; i += 2, plane += 2 * ROWS, table += 64) {
                NAME(u16) sum = (NAME(u16))(NAME(losses)(plane, table) + NAME(losses)(plane + ROWS, table + 32));
                even += sum & 255;
                odd += sum >> 8;
            }
            few[part] = (NAME(u8))(((NAME(u16))(even <= limit) & 0xff) | ((NAME(u16))(odd <= limit) & 0xff00));
            any |= (NAME(u64))few[part];
        }
        if (!NAME(any)(any)) continue;
        *wanted = 0;
        for (int i = 0; i < 8; i++) /* the multiplication collects the lowest bit of each byte */
            *wanted |= (load((uint8_t *)few + 8 * i) & 0x0101010101010101) * 0x0102040810204080 >> 56 << 8 * i;
        break;
    }
    return block;
}

TARGET static void NAME(to_words)(const uint8_t *rows, size_t blocks, size_t n_words, uint8_t *words) {
    if (n_words == 2) deal_words(rows, blocks, 2, words);
    else if (n_words == 4) deal_words(rows, blocks, 4, words);
    else if (n_words == 8) deal_words(rows, blocks, 8, words);
    else deal_words(rows, blocks, n_words, words);
}

/* The position of a byte among 16 rows x 8 bytes is a number of 7 bits: (register, byte of a lane). Zipping registers
   i and i + 4 rotates its bits by one. After 4 rounds, the row has changed places with the byte of the row. */
TARGET static void NAME(to_planes)(const uint8_t *words, size_t pieces, uint8_t *planes) {
    for (size_t part = 0; part < pieces * (ROWS / BYTES); part++, words += 8 * BYTES) {
        NAME(u8) from[8], to[8];
        UNROLL for (int i = 0; i < 8; i++) from[i] = (NAME(u8))LANES(words + 16 * i);
        UNROLL for (int round = 0; round < 4; round++) {
            UNROLL for (int i = 0; i < 4; i++) {
                to[2 * i] = (NAME(u8))LOW_ZIP(from[i], from[i + 4]);
                to[2 * i + 1] = (NAME(u8))HIGH_ZIP(from[i], from[i + 4]);
            }
            UNROLL for (int i = 0; i < 8; i++) from[i] = to[i];
        }
        uint8_t *at = planes + part / (ROWS / BYTES) * PIECE + part % (ROWS / BYTES) * BYTES;
        UNROLL for (int i = 0; i < 8; i++) memcpy(at + ROWS * i, &from[i], BYTES);
    }
}

static const Kernel NAME(kernel) = {LABEL, NAME(near), NAME(likely), NAME(to_words), NAME(to_planes)};

#undef NAME
#undef LABEL
#undef TARGET
#undef COUNTS
#undef COUNT
#undef SUM
