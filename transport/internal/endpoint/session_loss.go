package endpoint

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// SessionRef says how a request identified its session.
type SessionRef int

const (
	// NoSession: not at all; the server keeps no session.
	NoSession SessionRef = iota
	// HeaderSession: by the header Mcp-Session-Id (Streamable HTTP).
	HeaderSession
	// StreamSession: by the address that the event stream named (HTTP+SSE).
	StreamSession
)

// sessionLoss says what a response means for the session of its request.
type sessionLoss struct {
	// lost: the server does not know the session, so a new one is needed.
	lost bool
	// outcome is that of the request. It is OutcomeNotSent only if the server certainly
	// did not act on the request, so that the request may be sent again.
	outcome mcpvisor.Outcome
}

// sdkSessionTexts are the messages with which SDKs, and their examples, reject a
// request of an unknown session before they dispatch it: they prove that the request was not
// carried out. Whether a session is lost needs no text: see verify in package streamable.
// Lower case, without the prefixes of textPrefix and without a full stop.
var sdkSessionTexts = map[string]bool{
	"session not found":             true, // TypeScript, C#, Go, Kotlin, Rust, Python since 1.24
	"server not initialized":        true, // TypeScript: a new process has seen no initialize
	"no valid session id provided":  true, // Python, supergateway, examples of the TypeScript SDK
	"invalid or missing session id": true, // examples of the TypeScript SDK
	"invalid or expired session id": true, // Python, Swift
	"session has been terminated":   true, // Python
	"session terminated":            true, // mcp-go
	"invalid session id":            true, // mcp-go
	"session is closing":            true, // Go
	// Over HTTP+SSE:
	"session closed":                   true, // Go
	"could not find session":           true, // Python
	"no transport found for sessionid": true, // examples of the TypeScript SDK
}

// sdkSessionWithID is the message of the Java SDK, which quotes the session id.
var sdkSessionWithID = regexp.MustCompile(`^session not found: \S+$`)

// bareNotFound matches the message of a 404 that only repeats the status.
var bareNotFound = regexp.MustCompile(`^(?:404:? )?(?:page )?not found$`)

// textPrefix matches what SDKs and frameworks put in front of their messages.
var textPrefix = regexp.MustCompile(`^(?:bad request|not found|unauthorized|error): `)

// sessionLossOf interprets the response to a request of a session.
//
// MCP 2025-11-25, Streamable HTTP, Session Management: "The server MAY terminate the
// session at any time, after which it MUST respond to requests containing that
// session ID with HTTP 404 Not Found. When a client receives HTTP 404 in response to
// a request containing an MCP-Session-Id, it MUST start a new session". A server may also
// answer 404 for another reason, after a tool has acted. So only an empty body, one that
// repeats the status (bareNotFound), or the known message of an SDK proves that the request
// was not carried out. With 400, only a known message (sdkSessionTexts) means by itself that
// the session is lost.
//
// MCP 2024-11-05, HTTP with SSE, has no such rule for 404. There only a known message of
// an SDK proves that the request was not carried out.
func sessionLossOf(resp *http.Response, body []byte, ref SessionRef) sessionLoss {
	if ref == NoSession {
		return sessionLoss{outcome: mcpvisor.OutcomeAnswered}
	}
	text, kind := normalizedMessage(resp.Header.Get("Content-Type"), body)
	known := kind != messageUnreadable && (sdkSessionTexts[text] || sdkSessionWithID.MatchString(text))
	switch resp.StatusCode {
	case http.StatusNotFound:
		bare := kind == messageEmpty || kind != messageUnreadable && bareNotFound.MatchString(text)
		if known || bare && ref == HeaderSession {
			return sessionLoss{lost: true, outcome: mcpvisor.OutcomeNotSent}
		}
		return sessionLoss{lost: true, outcome: mcpvisor.OutcomeUnknown}
	case http.StatusBadRequest:
		if known {
			return sessionLoss{lost: true, outcome: mcpvisor.OutcomeNotSent}
		}
	case http.StatusUnauthorized:
		// The Rust SDK before 0.6 answers 401 here. A 401 about a token would carry
		// WWW-Authenticate.
		if known && resp.Header.Get("WWW-Authenticate") == "" {
			return sessionLoss{lost: true, outcome: mcpvisor.OutcomeNotSent}
		}
	}
	return sessionLoss{outcome: mcpvisor.OutcomeAnswered}
}

// messageKind says whether the body of an error status contains a message.
type messageKind int

const (
	messageRead messageKind = iota
	messageEmpty
	messageUnreadable // a web page, or JSON without a message
)

// normalizedMessage returns the message of an error body in lower case, without its
// prefix and its full stop. For plain text it is the whole text, not only the first line.
func normalizedMessage(contentType string, body []byte) (string, messageKind) {
	text := strings.TrimSpace(string(body))
	switch {
	case text == "":
		return "", messageEmpty
	case IsHTML(contentType, body):
		return "", messageUnreadable
	case text[0] == '{':
		if text = jsonErrorMessage([]byte(text)); text == "" {
			return "", messageUnreadable
		}
	}
	text = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(text), "."))
	return textPrefix.ReplaceAllString(text, ""), messageRead
}
