// Package configkeys has what package config offers to the command line of mcpvisor, and to no other program: the table of
// keys, the words for fields, and the schema. Config sets the variables when the program starts.
package configkeys

// Key describes one key of an entry. [All] lists them.
type Key struct {
	// Name is the key below the objects that hold it, joined by dots: "timeouts.call"
	// stands for {"timeouts": {"call": …}}.
	Name string
	// Aliases are other spellings of the last part of Name, which other hosts write.
	Aliases []string
	// Type says which values are accepted, in words.
	Type string
	// Default is the value used if the key is missing; empty if it has no default.
	Default string
	// Field is the field of mcpvisor.ServerSpec that the key sets, as in
	// "Timeouts.Call". It is empty for a key that sets none.
	Field string
	// Example is a value, as JSON.
	Example string
	// Meaning says what the key does. The key is the implied subject of its sentences.
	Meaning string
}

// SchemaURL is where the schema is published. An editor that finds it as
// "$schema" in a file completes and checks the file.
const SchemaURL = "https://raw.githubusercontent.com/mcpvisor/mcpvisor/main/config/mcpvisor.schema.json"

var (
	// All lists every key that an entry may have, sorted by subject. The order is that of docs/config.md, which is made
	// from this list.
	All func() []Key
	// Terms replaces the names of fields of mcpvisor.ServerSpec in a text by the keys that set them.
	Terms func(text string) string
	// Schema returns a JSON Schema (draft 7) of the files that config.Load reads, for editors.
	Schema func() []byte
)
