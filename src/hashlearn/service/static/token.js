// Asking for the server's token, once however many requests were refused.

import { token } from "./api.js";
import { byId } from "./dom.js";

const KEPT = "It is kept until this tab is closed, and sent to this server only.";

// again: what to do with the new token.
export function listen(again) {
  const dialog = byId("token-dialog");
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(byId("token").value.trim());
    byId("token").value = "";
    dialog.close();
    again();
  });
  byId("token-cancel").addEventListener("click", () => dialog.close());
}

export function ask() {
  const dialog = byId("token-dialog");
  if (dialog.open) return;
  byId("token-note").textContent = token.get() ? `The server refused that token. ${KEPT}` : KEPT;
  token.clear();
  dialog.showModal();
}
