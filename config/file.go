package config

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
)

// DefaultPath is the file in which a project lists its servers. The commands of
// mcpvisor read it unless --config names another.
const DefaultPath = ".mcp.json"

// File is the content of a configuration file. The package keeps no reference to
// a File that it has returned.
type File struct {
	// Path is the file's name, as it was given to [Load] or [Parse]. Several names are
	// joined by ", ".
	Path string
	// Paths are the names of the files that were read as one, in the order in which they
	// were given to [LoadFiles].
	Paths []string
	// Servers are the usable entries, in the order of the files, and those that [WithServers]
	// has skipped.
	Servers []Server
	// Unusable are the entries that cannot be used, in the order of the files. Only Name and
	// Origin of their Spec are set; Problems say what is wrong.
	Unusable []Server
	// Journal is the path of the file in which `mcpvisor run` keeps the calls with a key: "journal"
	// at the top of a file, relative to that file. The last file that has the key counts. Empty
	// without one.
	Journal string
	// Gateway has the values of "gateway" at the top of the last file that has that key. nil without one.
	Gateway *Gateway
	// Problems say what is wrong with the files, in the order of their lines.
	Problems []Problem
}

// Server is one entry.
type Server struct {
	// Spec is ready to be registered. StartSupervised is set, so that a server that is down
	// does not keep the host from starting.
	Spec mcpvisor.ServerSpec
	// Entry is the name of the entry in the file. Spec.Name is the same, unless
	// that text cannot name a server ("microsoft/playwright-mcp"). Then Spec.Name is
	// derived from it, and a warning says so.
	Entry string
	// Path is the name of the file that has the entry.
	Path string
	// Line is the line of that file in which the entry begins, from 1.
	Line int
	// Replaces gives the positions of the entries of the same name that this one replaced, as in
	// "user.json:4", in the order of the files.
	Replaces []string
	// Disabled entries are listed but are not to be started. Only the name of their Spec is set:
	// their variables may be missing, and the user is not asked for their inputs.
	Disabled bool
	// OnDown says what happens to the tools of the server in the lists of a gateway while it is down.
	// nil: what settings.Settings.OnDown says.
	OnDown *settings.OnDown
	// NodeLabels are those that a node of a fleet must have to run the server. nil: none.
	NodeLabels map[string]string
	// Share is for how many clients of a gateway one process of the server runs. Empty: for all.
	Share settings.Share
	// Skipped entries are those that [WithServers] does not name. Only the name of their Spec is
	// set; whether they are usable is not known.
	Skipped bool
}

// Find returns the server with a name: that of the server, or else that of its
// entry in the file. It reports false if the file has neither.
func (f *File) Find(name string) (Server, bool) {
	for _, matches := range []func(*Server) bool{
		func(s *Server) bool { return s.Spec.Name == name },
		func(s *Server) bool { return s.Entry == name },
	} {
		for i := range f.Servers {
			if matches(&f.Servers[i]) {
				return f.Servers[i], true
			}
		}
	}
	return Server{}, false
}

// Specs returns the specs of the servers that are neither disabled nor skipped, in the order
// of the file.
func (f *File) Specs() []mcpvisor.ServerSpec {
	var specs []mcpvisor.ServerSpec
	for _, s := range f.Servers {
		if !s.Disabled && !s.Skipped {
			specs = append(specs, s.Spec)
		}
	}
	return specs
}

// Broken returns the names of the servers whose entries cannot be used, which Unusable has.
// They are not in Specs. Pass them to the parameter keep of
// facade.Client.Apply, so that a typing error or an unset variable does not end a server
// that runs by an earlier, sound version of its entry:
//
//	err := client.Apply(ctx, file.Specs(), file.Broken()...)
//
// If an entry is defined twice, the first definition counts; if that one is usable, the server is
// not broken.
func (f *File) Broken() []string {
	var names []string
	for i := range f.Unusable {
		names = append(names, f.Unusable[i].Spec.Name)
	}
	return names
}
