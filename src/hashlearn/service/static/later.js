// Doing something once there has been a pause.

export function later(ms, action) {
  let waiting;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(action, ms, ...given);
  };
}
