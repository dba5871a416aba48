// Pictures given as a query. The address keeps their code; the file itself stays in this page's memory.

import { searchImage } from "./api.js";

const files = new Map(); // code → file

export function fileOf(code) {
  return files.get(code) ?? null;
}

// The picture's code in a collection; null when the collection cannot take pictures.
export async function codeOf(file, info) {
  if (!info?.can.image) return null;
  const found = await searchImage(info.name, file, { k: 1 });
  const { code } = found.results[0].query;
  files.set(code, file);
  return code;
}
