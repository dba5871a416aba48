// METHOD of hashlearn with N_BITS bits, for browsers and Node. It needs nothing else.
//
// encode(row) gives the packed code of a database row, encodeQuery(row) that of a query, and expectedBits(row) a
// real-valued query in [-1, 1]. A row has N_FEATURES numbers. Bit 0 is the most significant bit of byte 0.
//
// Codes of OpenHasher have no Hamming distance: query(row, emphasis) gives tables, and score(code, tables) compares them.

const ARRAYS = { f4: Float32Array, f8: Float64Array, i4: Int32Array };
const MODEL = JSON.parse("MODEL_JSON", (_, node) => (node?.data === undefined ? node : array(node)));

export const nFeatures = MODEL.n_features;
export const nBits = MODEL.n_bits;

export function encode(row) {
  const shift = MODEL.shift?.values;
  return pack(project(row), (bit) => (shift ? shift[bit] : 0));
}

// Tables of nibbles and of label words; emphasis is from 0 (most alike) to 1 (same label).
export function query(row, emphasis = 0.5) {
  const { nibbles, n_words, familiarity } = MODEL.tables;
  const base = run(checked(row), MODEL.steps.slice(0, -1));
  const tables = { nibbles: Float32Array.from(run(base, nibbles)), words: new Float32Array(4096) };
  if (n_words) {
    const [rank, best, near] = run(base, familiarity);
    const trust = Math.max(0, 2 * emphasis - 1);
    const weight = 8 * Math.min(1, 2 * emphasis) ** 2 * ((1 - trust) * rank * near + trust * best);
    tables.words.set(base.slice(0, n_words).map((affinity) => weight * affinity));
  }
  return tables;
}

// The score of a code; the largest is the nearest.
export function score(code, { nibbles, words }) {
  let sum = words[(code[0] << 4) | (code[1] >> 4)];
  code.forEach((byte, place) => (sum += nibbles[32 * place + (byte >> 4)] + nibbles[32 * place + 16 + (byte & 15)]));
  return sum;
}

export function encodeQuery(row) {
  return pack(projectForHamming(row), () => 0);
}

export function expectedBits(row) {
  const { slopes, offsets } = MODEL;
  const expected = (z, j) => Math.tanh((z * slopes.values[j] + offsets.values[j]) / 2);
  return Float32Array.from(projectForHamming(row), slopes ? expected : undefined);
}

export function hamming(a, b) {
  let distance = 0;
  for (let i = 0; i < a.length; i++) {
    for (let different = a[i] ^ b[i]; different; different &= different - 1) distance++;
  }
  return distance;
}

function project(row) {
  return run(checked(row), MODEL.steps);
}

function projectForHamming(row) {
  if (MODEL.tables) throw new TypeError("These codes have no Hamming distance: they are searched by query(row, emphasis).");
  return project(row);
}

function checked(row) {
  if (row.length !== nFeatures) throw new RangeError(`A row has ${nFeatures} numbers. Got ${row.length} instead.`);
  const x = Float64Array.from(row);
  if (!x.every(Number.isFinite)) throw new RangeError("The row contains NaN or infinity.");
  return x;
}

function run(x, steps) {
  return steps.reduce((value, step) => STEPS[step.step](value, step), x);
}

function pack(z, threshold) {
  const code = new Uint8Array(Math.ceil(nBits / 8));
  z.forEach((value, bit) => {
    if (value >= threshold(bit)) code[bit >> 3] |= 128 >> (bit & 7);
  });
  return code;
}

function array({ type, shape, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  return { shape, values: new ARRAYS[type](bytes.buffer) };
}

const STEPS = {
  affine(x, { weights, bias }) {
    const sums = Float64Array.from(bias.values);
    const W = weights.values;
    for (let i = 0, place = 0; i < x.length; i++) {
      for (let j = 0; j < sums.length; j++, place++) sums[j] += x[i] * W[place];
    }
    return sums;
  },
  cosine: (x) => x.map(Math.cos),
  join: (x, { parts }) => Float64Array.from(parts.flatMap((part) => [...run(x, part)])),
  kernel(x, { landmarks, scale }) {
    const features = new Float64Array(landmarks.shape[0]);
    const L = landmarks.values;
    for (let i = 0, place = 0; i < features.length; i++) {
      let squares = 0;
      for (let j = 0; j < x.length; j++, place++) {
        const difference = x[j] - L[place];
        squares += difference * difference;
      }
      features[i] = Math.exp(-scale * squares);
    }
    return features;
  },
  largest: (x) => new Float64Array(x.length).fill(1, x.indexOf(Math.max(...x)), x.indexOf(Math.max(...x)) + 1),
  log_odds: (x, { limit }) => x.map((e) => 2 * Math.atanh(Math.max(-limit, Math.min(limit, e)))),
  neighbors(x, { rows, marks, count }) {
    const width = x.length;
    const products = Array.from(marks.values, (_, i) => x.reduce((sum, v, j) => sum + v * rows.values[i * width + j], 0));
    const nearest = [...products.keys()].sort((a, b) => products[b] - products[a]).slice(0, count);
    return [Math.min(1, nearest.reduce((sum, i) => sum + marks.values[i], 0) / count)];
  },
  rank(x, { values, power }) {
    const best = x.reduce((a, b) => Math.max(a, b));
    const below = values.values.filter((value) => value < best).length;
    return [(below / Math.max(values.values.length, 1)) ** power, Math.max(0, Math.min(1, best))];
  },
  relu: (x) => x.map((value) => Math.max(value, 0)),
  scale: (x, { factors }) => x.map((value, j) => value * factors.values[j]),
  softmax(x) {
    const most = x.reduce((a, b) => Math.max(a, b));
    const powers = x.map((value) => Math.exp(value - most));
    const total = powers.reduce((a, b) => a + b);
    return powers.map((power) => power / total);
  },
  subtract: (x, { vector }) => x.map((value, j) => value - vector.values[j]),
  take: (x, { start, stop }) => x.slice(start, stop),
  trees(x, { feature, threshold, leaf }) {
    const [bits, trees, splits] = feature.shape;
    const sums = new Float64Array(bits);
    for (let tree = 0; tree < bits * trees; tree++) {
      let node = 0;
      while (node < splits) {
        const place = tree * splits + node;
        node = 2 * node + 1 + (x[feature.values[place]] > threshold.values[place] ? 1 : 0);
      }
      sums[Math.floor(tree / trees)] += leaf.values[tree * (splits + 1) + node - splits];
    }
    return sums;
  },
  unit(x) {
    const norm = Math.sqrt(x.reduce((total, value) => total + value * value, 0));
    return norm === 0 ? x : x.map((value) => value / norm);
  },
};
