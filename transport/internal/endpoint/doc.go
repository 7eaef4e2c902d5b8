// Package endpoint sends HTTP requests to the endpoint of one MCP server, and explains
// what went wrong with them. It knows nothing of sessions, and of JSON-RPC only the
// message of an error.
//
// [Endpoint.Do] is the way of every request. It adds the headers of the specification,
// an access token and cookies, follows redirects within the origin, and repeats a
// request only if the server has certainly not begun to work on it. [ConnTrace] holds
// the evidence for that.
//
// An [HTTPError] says what a failed request means for a call (its kind, and whether the
// server may have acted) and for a start (its cause, and whether a retry can help). The
// texts of servers are shortened, and cleared of the endpoint's secrets.
package endpoint
