package mcpvisor

// Warning says what is missing from the catalog of a server, and why: a list that
// failed, an entry that could not be read, a limit that was reached. The server is
// ready all the same.
type Warning struct {
	// List is the list that the warning is about: "tools", "resources",
	// "resourceTemplates" or "prompts". It is empty if the warning is about none of them.
	List string `json:"list,omitempty"`
	// Text is one line. It may quote what the server sent, without control characters
	// and shortened.
	Text string `json:"text"`
}

// String returns "List: Text", or Text alone where List is empty.
func (w Warning) String() string {
	if w.List == "" {
		return w.Text
	}
	return w.List + ": " + w.Text
}
