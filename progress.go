package mcpvisor

// Progress is what a server says about a call that is under way
// (notifications/progress).
type Progress struct {
	// Progress is how far it has come. It grows, by the specification.
	Progress float64 `json:"progress"`
	// Total is where it ends; 0 if the server does not say.
	Total float64 `json:"total,omitempty"`
	// Message is for people; empty from servers before 2025-03-26.
	Message string `json:"message,omitempty"`
}
