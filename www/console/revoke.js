// Asks before a lease of somebody else is ended, and ends it.
import { make, setAttribute, setText, setUsable, isUsable } from "../shared/dom.js";
import { clientOf, tokenOf } from "./holders.js";
import { shown } from "./names.js";

/** What the store takes, bytes. */
const REASON_BYTES = 256;

/**
 * Resolves with what came of it, in words, once the person has decided and the store has answered; with `undefined`
 * where nothing was done. Without a `holder` it is about every lease of the lock.
 */
export function revoke(session, lock, holder) {
  const reason = make("input", { id: "reason", autocomplete: "off", maxLength: REASON_BYTES });
  const keep = make("button", { type: "button", autofocus: true }, "Keep it");
  const end = make(
    "button",
    { className: "danger" },
    holder ? `Revoke ${holder.fence}` : "Revoke all",
  );
  const problem = make("p", { className: "problem", role: "alert" });
  const form = make(
    "form",
    { noValidate: true },
    make("h2", { id: "revoke-title" }, holder ? "Revoke this lease?" : "Revoke every lease?"),
    make("div", { id: "revoke-what", className: "rows" }, ...about(lock, holder)),
    make(
      "div",
      { className: "field" },
      make("label", { htmlFor: "reason" }, "Reason (optional, others can read it)"),
      reason,
    ),
    problem,
    make("div", { className: "buttons" }, keep, end),
  );
  const dialog = make("dialog", { className: "revoke" }, form);
  setAttribute(dialog, "aria-labelledby", "revoke-title");
  setAttribute(dialog, "aria-describedby", "revoke-what");
  document.body.append(dialog);

  return new Promise((resolve) => {
    let outcome;
    keep.addEventListener("click", () => isUsable(end) && dialog.close());
    // What came of it is to be heard.
    dialog.addEventListener("cancel", (event) => isUsable(end) || event.preventDefault());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(outcome);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!isUsable(end)) return;
      setText(problem, "");
      setUsable(end, false);
      try {
        outcome = await ended(session, lock, holder, reason.value.trim());
        dialog.close();
      } catch (error) {
        setText(problem, wordsOf(error));
        setUsable(end, true);
      }
    });
    dialog.showModal();
  });
}

function about(lock, holder) {
  const name = make("p", { className: "full" }, "Lock ", shown(lock));
  const whose = holder
    ? make(
        "p",
        { className: "full" },
        "held by ",
        clientOf(holder),
        " under fence ",
        tokenOf(holder),
      )
    : make("p", {}, "whoever holds it now");
  const after =
    "Its holder is told at once where it listens, else at its next renewal. Until then it may go on working: " +
    "only the fence stops what it writes. The next in the queue is granted the lock now.";
  return [name, whose, make("p", { className: "soft small" }, after)];
}

async function ended(session, lock, holder, reason) {
  const options = { ...(holder && { fence: holder.fence }), ...(reason !== "" && { reason }) };
  const { revoked } = await session.locks.revoke(lock, options);
  if (revoked === 0) return "Nothing to revoke: the lease had ended before.";
  return holder ? `Revoked the lease with fence ${holder.fence}.` : `Revoked ${revoked} leases.`;
}

function wordsOf(error) {
  switch (error.code) {
    case "forbidden":
      return "This key may not revoke: that takes the right admin in this space.";
    case "unauthorized":
      return "The store does not know this key any more.";
    case "invalid_argument":
      return error.field === "reason"
        ? `The reason is too long: at most ${REASON_BYTES} bytes.`
        : error.message;
    case "unavailable":
      return "No answer: it is not known whether the lease has ended. Trying again does no harm.";
    default:
      return error.message;
  }
}
