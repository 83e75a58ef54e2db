/* Asking Fader's own routes; what goes wrong arrives as an Error whose message is for the reader. */

/** Ask one of Fader's routes; throws an Error whose message is the server's sentence. */
export async function api(path, body) {
  let response;
  try {
    response = await fetch(path, body === undefined ? { headers: { "X-Fader": "1" } } : {
      method: "POST", headers: { "Content-Type": "application/json", "X-Fader": "1" }, body: JSON.stringify(body),
    });
  } catch (error) {
    throw Object.assign(new Error("Fader is not answering. What you typed is kept."), { offline: true, cause: error });
  }
  if (response.status === 401) location.assign("/login");
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(answer.error || "Fader could not do that."), { status: response.status });
  return answer;
}
