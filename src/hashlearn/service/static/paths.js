// Values in nested payloads.

export function value(payload, path) {
  let found = payload;
  for (const name of path) {
    if (typeof found !== "object" || found === null || Array.isArray(found) || !Object.hasOwn(found, name)) return undefined;
    found = found[name];
  }
  return found;
}
