// Pictures of rows. An <img> cannot carry a token, so with one the bytes are fetched and shown from memory.

import { imageBlob, token } from "./api.js";
import { el } from "./dom.js";

// address: as the API tells it.
export function picture(address, alt, size) {
  const path = `${address}?size=${size}`;
  const image = el("img", { class: "picture", alt, width: size, height: size, loading: "lazy", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(el("span", { class: "no-picture" }, "no picture")));
  if (!token.get()) {
    image.src = path;
    return image;
  }
  imageBlob(path).then(
    (blob) => show(image, blob),
    () => image.dispatchEvent(new Event("error")),
  );
  return image;
}

// From memory, which is given back once the picture is decoded.
export function show(image, blob) {
  const address = URL.createObjectURL(blob);
  image.addEventListener("load", () => URL.revokeObjectURL(address), { once: true });
  image.addEventListener("error", () => URL.revokeObjectURL(address), { once: true });
  image.loading = "eager";
  image.src = address;
}
