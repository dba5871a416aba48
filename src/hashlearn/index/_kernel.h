/* One kernel of the scan. _scan.c includes this file once per set of instructions, after it has defined

   NAME(x)             x with the name of the set, LABEL
   TARGET              the attribute of its functions
   BYTES               bytes of a register
   COUNTS              a vector type, in which COUNT(x, q) counts the bits in which the words x of 8 bytes differ from
                       the word *q of a query, in each byte or in each word
   SUM(x)              the sum of these counts in each word
   LEAST(a, b)         the smaller one of each pair of words that are less than 2 ** 32
   ANY(x)              true if a bit of x is set
   LOOK_UP(table, x)   table[x[i]] for every byte x[i] < 16
   LANES(at, step)     the 16 bytes at `at`, at + step, ... in the lanes of 16 bytes
   LOW_BYTES(a, b)     the low halves of each lane of a and b, zipped byte by byte; HIGH_BYTES: the high halves
   LOW_WORDS(a, b)     the low word of each lane of a and b by turns; HIGH_WORDS: the high word
   EVEN_LANES(a, b)    the even lanes of a, then those of b; ODD_LANES: the odd lanes

   Everything else is written with the vectors of GCC and Clang. */

typedef uint8_t NAME(u8) __attribute__((vector_size(BYTES)));
typedef uint16_t NAME(u16) __attribute__((vector_size(BYTES)));
typedef uint64_t NAME(u64) __attribute__((vector_size(BYTES)));

TARGET INLINE NAME(u8) NAME(read)(const void *at) {
    NAME(u8) bytes;
    memcpy(&bytes, at, BYTES);
    return bytes;
}

/* Read n registers, `step` bytes apart, with n words each of BYTES / 8 rows, so that words[i] gets word i of each row.
   The rows change places, the same in all words. Each round exchanges a bit of the number of the register with a bit of
   the number of the word. */
TARGET INLINE void NAME(deal)(const uint8_t *rows, size_t step, const size_t n, NAME(u64) *words) {
    UNROLL for (size_t i = 0; i < n; i++) words[i] = (NAME(u64))NAME(read)(rows + step * i);
    UNROLL for (size_t apart = 1; apart < n; apart *= 2)
        UNROLL for (size_t pair = 0; pair < n / 2; pair++) {
            NAME(u64) *i = words + pair + pair / apart * apart, a = i[0], b = i[apart];
            i[0] = apart == 1 ? (NAME(u64))LOW_WORDS(a, b) : (NAME(u64))EVEN_LANES(a, b);
            i[apart] = apart == 1 ? (NAME(u64))HIGH_WORDS(a, b) : (NAME(u64))ODD_LANES(a, b);
        }
}

TARGET INLINE size_t NAME(near_words)(const uint8_t *rows, size_t block, size_t end, const size_t n_words,
                                      const Word *const *codes, const uint64_t *limits, const int n, int *wanted) {
    const size_t dealt = n_words * 8 < BYTES ? n_words : BYTES / 8;
    for (; block < end; block++) {
        const uint8_t *at = rows + block * n_words * PIECE;
        if (n == 1) /* more queries look at rows that the first ones have brought to the cache */
            for (size_t i = 0; i < n_words * PIECE; i += 64) PREFETCH(at + AHEAD + i);
        NAME(u64) least[GROUP], below = {0}, words[BYTES / 8];
        UNROLL for (int i = 0; i < n; i++) least[i] = (NAME(u64)){0} + limits[i];
        for (size_t part = 0; part < PIECE / BYTES; part++, at += n_words * BYTES) {
            COUNTS counts[GROUP] = {{0}}; /* at most 8 per byte and word, so 16 words fit */
            for (size_t word = 0; word < n_words; word += dealt) {
                NAME(deal)(at + 8 * word, n_words / dealt * BYTES, dealt, words);
                UNROLL for (int i = 0; i < n; i++) {
                    UNROLL for (size_t j = 0; j < dealt; j++) counts[i] += COUNT(words[j], &codes[i][word + j]);
                    if (word + dealt == n_words) least[i] = (NAME(u64))LEAST(least[i], (NAME(u64))SUM(counts[i]));
                }
            }
        }
        UNROLL for (int i = 0; i < n; i++) below |= least[i] ^ limits[i];
        if (!ANY(below)) continue;
        *wanted = 0;
        UNROLL for (int i = 0; i < n; i++) *wanted |= !!ANY(least[i] ^ limits[i]) << i;
        break;
    }
    return block;
}

TARGET static size_t NAME(near)(const uint8_t *rows, size_t block, size_t end, size_t n_words,
                                const Word *const *codes, const uint64_t *limits, int n, int *wanted) {
#define NEAR(n_words, n) NAME(near_words)(rows, block, end, n_words, codes, limits, n, wanted)
    switch (n_words) {
    case 1: return n == 1 ? NEAR(1, 1) : NEAR(1, GROUP);
    case 2: return n == 1 ? NEAR(2, 1) : NEAR(2, GROUP);
    case 4: return n == 1 ? NEAR(4, 1) : NEAR(4, GROUP);
    case 8: return n == 1 ? NEAR(8, 1) : NEAR(8, GROUP);
    default: return n == 1 ? NEAR(16, 1) : NEAR(16, GROUP);
    }
#undef NEAR
}

TARGET static uint64_t NAME(measure)(const uint8_t *rows, size_t n_words, const Word *code, uint64_t limit,
                                     uint64_t *distances) {
#define MEASURE(n_words) measure_words(rows, n_words, code, limit, distances, 1)
    switch (n_words) {
    case 1: return MEASURE(1);
    case 2: return MEASURE(2);
    case 4: return MEASURE(4);
    default: return MEASURE(n_words);
    }
#undef MEASURE
}

TARGET INLINE size_t NAME(likely_rows)(const uint8_t *planes, size_t block, size_t end, size_t n_words, size_t width,
                                       const uint8_t *const *rounded, const uint16_t *limits, const int n,
                                       const uint16_t *start, uint64_t *wanted) {
    for (; block < end; block++) {
        NAME(u8) few[GROUP][ROWS / BYTES]; /* 255 where the losses are few */
        NAME(u64) any = {0};
        UNROLL for (int part = 0; part < ROWS / BYTES; part++) {
            const uint8_t *plane = planes + block * n_words * PIECE + BYTES * part;
            NAME(u16) both[GROUP], odd[GROUP]; /* of even rows plus 256 times that of odd ones, modulo 65536 */
            UNROLL for (int i = 0; i < n; i++) both[i] = odd[i] = (NAME(u16)){0};
            if (start) {
                odd[0] = (NAME(u16))NAME(read)(start + block * ROWS + ROWS / 2 + BYTES / 2 * part);
                both[0] = (NAME(u16))NAME(read)(start + block * ROWS + BYTES / 2 * part) + (odd[0] << 8);
            }
            for (size_t byte = 0; byte < width; byte += 2, plane += 2 * ROWS) {
                NAME(u8) first = NAME(read)(plane), second = NAME(read)(plane + ROWS);
                NAME(u8) nibbles[4] = {(NAME(u8))((NAME(u16))first >> 4) & 15, first & 15,
                                       (NAME(u8))((NAME(u16))second >> 4) & 15, second & 15};
                UNROLL for (int i = 0; i < n; i++) {
                    NAME(u8) sum = {0};
                    UNROLL for (int j = 0; j < 4; j++)
                        sum += (NAME(u8))LOOK_UP(rounded[i] + 32 * byte + 16 * j, nibbles[j]);
                    both[i] += (NAME(u16))sum;
                    odd[i] += (NAME(u16))sum >> 8;
                }
            }
            UNROLL for (int i = 0; i < n; i++) {
                NAME(u16) limit = (NAME(u16)){0} + limits[i], even = both[i] - (odd[i] << 8);
                few[i][part] = (NAME(u8))(((NAME(u16))(even < limit) & 0xff) | ((NAME(u16))(odd[i] < limit) & 0xff00));
                any |= (NAME(u64))few[i][part];
            }
        }
        if (!ANY(any)) continue;
        for (int i = 0; i < n; i++) {
            wanted[i] = 0;
            for (int j = 0; j < 8; j++) /* the multiplication collects the lowest bit of each byte */
                wanted[i] |= (load((uint8_t *)few[i] + 8 * j) & 0x0101010101010101) * 0x0102040810204080 >> 56 << 8 * j;
        }
        break;
    }
    return block;
}

TARGET static size_t NAME(likely)(const uint8_t *planes, size_t block, size_t end, size_t n_words, size_t width,
                                  const uint8_t *const *rounded, const uint16_t *limits, int n, const uint16_t *start,
                                  uint64_t *wanted) {
    if (n == 1) return NAME(likely_rows)(planes, block, end, n_words, width, rounded, limits, 1, start, wanted);
    return NAME(likely_rows)(planes, block, end, n_words, width, rounded, limits, GROUP, NULL, wanted);
}

/* The position of a byte among 16 rows x `n` bytes (8 or 16) is a number of 7 or 8 bits: (register, byte of a lane).
   Zipping registers i and i + n / 2 rotates its bits by one. After 4 rounds, the row has changed places with the byte
   of the row. */
TARGET INLINE void NAME(turn)(const uint8_t *rows, size_t blocks, size_t n_words, uint8_t *planes, const size_t n) {
    for (; blocks; blocks--, rows += n_words * PIECE, planes += n_words * PIECE) {
        for (size_t i = 0; i < n_words * PIECE; i += 64) PREFETCH(rows + AHEAD + i);
        for (size_t part = 0; part < ROWS; part += BYTES)
            for (size_t column = 0; column < 8 * n_words; column += n) {
                const uint8_t *at = rows + part * 8 * n_words + column;
                NAME(u8) from[16], to[16];
                UNROLL for (size_t i = 0; i < n; i++)
                    from[i] = (NAME(u8))LANES(at + 128 * n_words / n * i, 128 * n_words);
                UNROLL for (int round = 0; round < 4; round++) {
                    UNROLL for (size_t i = 0; i < n / 2; i++) {
                        to[2 * i] = (NAME(u8))LOW_BYTES(from[i], from[i + n / 2]);
                        to[2 * i + 1] = (NAME(u8))HIGH_BYTES(from[i], from[i + n / 2]);
                    }
                    UNROLL for (size_t i = 0; i < n; i++) from[i] = to[i];
                }
                UNROLL for (size_t i = 0; i < n; i++) memcpy(planes + (column + i) * ROWS + part, &from[i], BYTES);
            }
    }
}

TARGET static void NAME(to_planes)(const uint8_t *rows, size_t blocks, size_t n_words, uint8_t *planes) {
    switch (n_words) {
    case 1: NAME(turn)(rows, blocks, 1, planes, 8); break;
    case 2: NAME(turn)(rows, blocks, 2, planes, 16); break;
    case 4: NAME(turn)(rows, blocks, 4, planes, 16); break;
    case 8: NAME(turn)(rows, blocks, 8, planes, 16); break;
    default: NAME(turn)(rows, blocks, 16, planes, 16);
    }
}

static const Kernel NAME(kernel) = {LABEL, NAME(near), NAME(measure), NAME(likely), NAME(to_planes)};

#undef NAME
#undef LABEL
#undef TARGET
#undef COUNTS
#undef COUNT
#undef SUM
