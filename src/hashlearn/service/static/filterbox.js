// The filter: its JSON, its form beside it, and what is wrong with it, said once and here.

import { byId, say } from "./dom.js";
import { wrongWith } from "./filter.js";
import * as form from "./filterform.js";
import { later } from "./later.js";
import { change, state } from "./state.js";

const PAUSE = 500; // ms without a key before the server is asked

let refused = null; // {where}: the filter that went on being used when the server refused the one in the box

function tell(message) {
  say(byId("where-note"), message);
  byId("where").setAttribute("aria-invalid", String(Boolean(message)));
}

function typed() {
  const text = byId("where").value;
  const wrong = wrongWith(text);
  refused = wrong === null ? null : { where: state().where };
  tell(wrong);
  if (wrong === null) change({ where: text.trim() });
}

export function listen() {
  byId("where").addEventListener("input", later(PAUSE, typed));
  form.listen(
    (text) => {
      byId("where").value = text;
      typed();
    },
    (action) => later(PAUSE, action),
  );
}

export function show(where) {
  // What was refused stays in the box, to be mended, until another filter is used.
  if (refused !== null && refused.where === where) return;
  refused = null;
  if (byId("where") !== document.activeElement) byId("where").value = where;
  tell(wrongWith(where));
  form.show(where);
}

// The server does not take the filter. before: the one whose results are shown, null when there are none.
export function refuse(message, before) {
  tell(before === null ? message : `${message} The results are still those of the filter before.`);
  byId("more").open = true;
  if (before === null) return;
  refused = { where: before };
  change({ where: before });
}
