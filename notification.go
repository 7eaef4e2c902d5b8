package mcpvisor

// LogMessage is one log message of a server (MCP, utilities, logging:
// notifications/message).
type LogMessage struct {
	// Level is the severity of RFC 5424: debug, info, notice, warning, error, critical,
	// alert or emergency.
	Level string `json:"level"`
	// Logger names the part of the server that logs; may be empty.
	Logger string `json:"logger,omitempty"`
	// Text is the message: text without control characters, or JSON. At most 8 KiB; the
	// rest is cut.
	Text string `json:"text"`
}

// Progress is a server's report about a call in flight (MCP, basic, utilities,
// progress: notifications/progress).
type Progress struct {
	// Progress is how far the call has come. The specification requires it to grow.
	Progress float64 `json:"progress"`
	// Total is the value of Progress at the end of the call; 0 if the server does not
	// say.
	Total float64 `json:"total,omitempty"`
	// Message is text for the user; always empty from servers before 2025-03-26.
	Message string `json:"message,omitempty"`
}
