// Keeps the page up to date, opens the session that a link brings along, and sends what buttons ask for.
"use strict";

const PROOF = "lmtb-page-proof"; // of this origin only, unlike the cookie, which other ports of the host get too
const connection = document.getElementById("connection");

function say(text) {
  connection.textContent = text;
}

function enableButtons() {
  const mayAct = sessionStorage.getItem(PROOF) !== null;
  for (const button of document.querySelectorAll("button[data-action]")) button.disabled = !mayAct;
  document.getElementById("access").hidden = mayAct;
}

async function send(path, message) {
  const proof = sessionStorage.getItem(PROOF);
  const headers = { "Content-Type": "application/json", ...(proof === null ? {} : { "X-Page-Proof": proof }) };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(message) });
  const answer = await response.json();
  if (response.status === 403) sessionStorage.removeItem(PROOF);
  return answer;
}

async function openSession() {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (ticket === null) return;
  history.replaceState(null, "", location.pathname);
  const answer = await send("/page/session", { ticket });
  if (answer.ok) sessionStorage.setItem(PROOF, answer.proof);
  else say(answer.text);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-action]");
  if (button === null || button.disabled) return;
  button.disabled = true;
  const { action, ...members } = button.dataset;
  try {
    const answer = await send("/page/action", { action, ...members });
    say(answer.text);
  } catch {
    say("The manager did not answer. Try again.");
  }
  enableButtons();
});

const changes = new EventSource("/page/changes");
changes.onopen = () => say("");
changes.onerror = () => say("The manager does not answer; this page shows what was last known.");
changes.onmessage = (event) => {
  const focused = document.activeElement?.closest("section")?.id;
  for (const [name, html] of Object.entries(JSON.parse(event.data))) {
    // a part is not replaced under the keyboard of a person
    if (name !== focused) document.getElementById(name).innerHTML = html;
  }
  enableButtons();
};

openSession().finally(enableButtons);
