// The filter box: JSON as the API takes it. What is wrong with it is said at once; what is right goes to the server.

const EXAMPLE = '{"label": "shoe", "year": {">=": 2020}}';

// null when the text can be sent (an empty one means no filter), else one sentence.
export function wrongWith(text) {
  if (!text.trim()) return null;
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `The filter is not JSON (${error.message}). Write it such as ${EXAMPLE}.`;
  }
  const object = typeof value === "object" && value !== null && !Array.isArray(value);
  return object ? null : `The filter must be an object such as ${EXAMPLE}.`;
}
