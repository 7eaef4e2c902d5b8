package gateway

// Withheld is a tool or prompt that is not listed, and cannot be called.
type Withheld struct {
	// Server and Name are those of the tool or prompt at its server.
	Server string `json:"server"`
	Name   string `json:"name"`
	// Kind is "tool" or "prompt".
	Kind string `json:"kind"`
	// Reason says why, and what to do.
	Reason string `json:"reason"`
}
