// Two fingers that move apart or together.

// zoom(by, x, y): the distance of the fingers has changed by this factor; x, y is the place between them.
export function pinching(zoom) {
  const fingers = new Map(); // pointer → its place
  const apart = () => {
    const [one, other] = [...fingers.values()];
    return Math.hypot(one.x - other.x, one.y - other.y);
  };
  return {
    // How many fingers are down now.
    down: ({ pointerId, offsetX, offsetY }) => fingers.set(pointerId, { x: offsetX, y: offsetY }).size,
    up: ({ pointerId }) => fingers.delete(pointerId),
    // Whether two fingers are down: then nothing is dragged.
    move: ({ pointerId, offsetX, offsetY }) => {
      if (!fingers.has(pointerId) || fingers.size !== 2) return false;
      const before = apart();
      fingers.set(pointerId, { x: offsetX, y: offsetY });
      const [one, other] = [...fingers.values()];
      if (before > 0) zoom(apart() / before, (one.x + other.x) / 2, (one.y + other.y) / 2);
      return true;
    },
  };
}
