// Keeps the page up to date, opens the session that a link brings along, and sends what buttons ask for.
"use strict";

const PROOF = "lmtb-page-proof"; // of this origin only, unlike the cookie, which other ports of the host get too
const GONE = "The manager does not answer; this page shows what was last known.";
const AGAIN_MS = 3000;
const SETTLE_MS = 700; // a button may be another call's than the one that a person saw and aimed at
const shown = new Map(); // what sections were given; their own HTML changes as buttons are enabled
const replacedAt = new WeakMap();
const connection = document.getElementById("connection");

function say(text, url) {
  connection.textContent = text;
  if (url === undefined || !/^https?:\/\//.test(url)) return;
  const link = document.createElement("a");
  Object.assign(link, { href: url, target: "_blank", rel: "noopener noreferrer", textContent: "Open the page to sign in" });
  connection.append(" ", link);
  link.focus();
}

function enableButtons() {
  const mayAct = sessionStorage.getItem(PROOF) !== null;
  for (const button of document.querySelectorAll("button[data-action]")) button.disabled = !mayAct;
  const access = document.getElementById("access");
  if (access !== null) access.hidden = mayAct;
  for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
}

async function send(path, message) {
  const proof = sessionStorage.getItem(PROOF);
  const headers = { "Content-Type": "application/json", ...(proof === null ? {} : { "X-Page-Proof": proof }) };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(message) });
  const answer = await response.json();
  if (response.status === 403) sessionStorage.removeItem(PROOF);
  return answer;
}

// whether a link opened a session just now
async function openSession() {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (ticket === null) return false;
  history.replaceState(null, "", location.pathname);
  const answer = await send("/page/session", { ticket });
  if (answer.ok) sessionStorage.setItem(PROOF, answer.proof);
  else say(answer.text);
  return answer.ok;
}

// a session ends with the manager, and when somebody ends it: what was kept of it says nothing then
async function checkSession() {
  if (sessionStorage.getItem(PROOF) === null) return;
  await send("/page/action", { action: "none" }).catch(() => undefined);
  enableButtons();
}

function keyOf(element) {
  return JSON.stringify([element.tagName, element.getAttribute("href"), { ...element.dataset }, element.textContent]);
}

// a part that is replaced under the keyboard of a person gives the focus to what is there again
function keepFocus(section, key) {
  const same = [...section.querySelectorAll("a, button, summary")].find((one) => !one.disabled && keyOf(one) === key);
  section.tabIndex = -1;
  (same ?? section).focus({ preventScroll: true });
}

function show(parts) {
  const focused = document.activeElement;
  for (const [name, html] of Object.entries(parts)) {
    const section = document.getElementById(name);
    if (section === null || (shown.get(name) ?? section.innerHTML) === html) continue;
    const key = section.contains(focused) ? keyOf(focused) : undefined;
    const before = section.querySelectorAll("tr").length;
    section.innerHTML = html;
    if (name === "browsers" && section.querySelectorAll("tr").length < before) checkSession();
    shown.set(name, html);
    replacedAt.set(section, performance.now());
    enableButtons();
    if (key !== undefined) keepFocus(section, key);
  }
  enableButtons();
}

function hasJustMoved(button) {
  const at = replacedAt.get(button.closest("section"));
  return button.dataset.action === "answer-approval" && at !== undefined && performance.now() - at < SETTLE_MS;
}

// a page without a stream of changes is read again: after an action, and when a person comes back to it
async function readAgain() {
  const response = await fetch(location.href);
  const read = new DOMParser().parseFromString(await response.text(), "text/html");
  const main = read.querySelector("main");
  if (main === null) throw new Error("this is no page of ours");
  document.querySelector("main").replaceWith(main);
  enableButtons();
}

function focusButton({ action, tool, source }) {
  const alike = (one) => one.dataset.action === action && one.dataset.tool === tool && one.dataset.source === source;
  const button = [...document.querySelectorAll("button[data-action]")].find(alike);
  (button?.closest("details:not([open])")?.querySelector("summary") ?? button)?.focus();
}

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.open = false;
}

// a menu opens and closes without this; with it, it also closes as menus do
document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu")));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = event.target.closest("details.menu[open]");
  closeMenus();
  menu?.querySelector("summary").focus();
});

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("button[data-copy]");
  if (copy === null) return;
  try {
    await navigator.clipboard.writeText(copy.parentElement.querySelector("code").textContent);
    say("The command is copied.");
  } catch {
    say("The browser does not allow copying: select the command and copy it.");
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-action]");
  if (button === null || button.disabled) return;
  if (hasJustMoved(button)) {
    say("The calls changed just now. Read again, then click.");
    return;
  }
  button.disabled = true;
  say("One moment …");
  const { action, ...members } = button.dataset;
  try {
    const answer = await send("/page/action", { action, ...members });
    if (address === undefined) {
      await readAgain();
      focusButton(button.dataset);
    }
    say(answer.text, answer.url);
  } catch {
    say("The manager did not answer. Try again.");
  }
  enableButtons();
});

function follow(address) {
  const changes = new EventSource(address);
  changes.onopen = () => {
    if (connection.textContent !== GONE) return;
    say("");
    checkSession();
  };
  changes.onerror = () => {
    say(GONE);
    // a browser tries again by itself, but not after an answer such as that of a manager that is stopping
    if (changes.readyState === EventSource.CLOSED) setTimeout(follow, AGAIN_MS, address);
  };
  changes.onmessage = (event) => show(JSON.parse(event.data));
}

const address = document.querySelector("main").dataset.changes;
if (address === undefined) {
  document.addEventListener("visibilitychange", () => {
    const hasForm = document.querySelector("main form") !== null; // what is typed there would be lost
    if (document.visibilityState === "visible" && !hasForm) readAgain().catch(() => say("The manager does not answer."));
  });
} else {
  follow(address);
}

openSession().finally(enableButtons).then((isNew) => isNew || checkSession());
