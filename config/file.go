package config

import (
	"github.com/mcpvisor/mcpvisor"
)

// DefaultPath is where a project keeps its servers.
const DefaultPath = ".mcp.json"

// Format is the key below which a file lists its servers.
type Format string

const (
	// FormatMCPServers is what Claude Desktop, Claude Code and Cursor write.
	FormatMCPServers Format = "mcpServers"
	// FormatServers is what VS Code writes, in mcp.json or below "mcp" in its settings.
	FormatServers Format = "servers"
)

// File is what a configuration file says. It is a value of its own: nobody
// changes it after it was returned.
type File struct {
	// Path is the file's name, as it was given.
	Path string
	// Format is the format of the first list in the file. A second list is read
	// too, with a warning.
	Format Format
	// Servers are the usable entries, in the order of the file.
	Servers []Server
	// Problems are what is wrong with the file, in the order of its lines.
	Problems []Problem
}

// Server is one usable entry.
type Server struct {
	// Spec is ready to be registered. StartSupervised is set: a host has to come
	// up while a server is down.
	Spec mcpvisor.ServerSpec
	// Entry is the entry's name as it stands in the file. Spec.Name is the same,
	// unless that text cannot name a server ("microsoft/playwright-mcp"): then it
	// is derived from it, and a warning says so.
	Entry string
	// Line is where the entry begins, from 1.
	Line int
	// Disabled entries are listed and not meant to be started. Only the name of
	// their Spec is filled in: their variables may not be set, and nobody is
	// asked for their inputs.
	Disabled bool
}

// Find returns the entry of that name: the server's, or the one in the file.
func (f *File) Find(name string) (Server, bool) {
	for _, found := range []func(*Server) bool{
		func(s *Server) bool { return s.Spec.Name == name },
		func(s *Server) bool { return s.Entry == name },
	} {
		for i := range f.Servers {
			if found(&f.Servers[i]) {
				return f.Servers[i], true
			}
		}
	}
	return Server{}, false
}

// EntryName is the name of a server's entry in the file. It is "" for a server that the file does not have.
func (f *File) EntryName(server string) string {
	for i := range f.Servers {
		if f.Servers[i].Spec.Name == server {
			return f.Servers[i].Entry
		}
	}
	return ""
}

// Specs returns the specs of the servers that are not disabled.
func (f *File) Specs() []mcpvisor.ServerSpec {
	var specs []mcpvisor.ServerSpec
	for _, s := range f.Servers {
		if !s.Disabled {
			specs = append(specs, s.Spec)
		}
	}
	return specs
}
