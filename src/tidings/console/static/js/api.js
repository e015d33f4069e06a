// Asking the console's server. A refusal is thrown as a Problem that says what to do.

export class Problem extends Error {
  constructor(status, said) {
    super(said.detail || said.title || `the server answered ${status}`);
    this.status = status;
    this.hint = said.hint || "";
    this.said = said;
  }
}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Problem(0, { detail: "the broker of this console cannot be reached", hint: "is it running?" });
  }
  const said = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, said);
  return said;
}

export function get(path, query) {
  const given = Object.entries(query || {}).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return asked(given.length ? `${path}?${new URLSearchParams(given)}` : path);
}

function sent(method) {
  return (path, body) => asked(path, {
    method, body: body === undefined ? undefined : JSON.stringify(body),
    headers: { "content-type": "application/json", "x-tidings-console": "1" },
  });
}

export const post = sent("POST");
export const remove = sent("DELETE");
