package main

import (
	"fmt"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/facade"
)

type versionCmd struct{}

func (versionCmd) Run(inv *invocation) error {
	v := programVersion()
	if inv.JSON {
		return cli.PrintJSON(inv.Out, v)
	}
	_, err := fmt.Fprintln(inv.Out, v)
	return err
}

// versionFlag is --version, which prints the version before anything else is looked at.
type versionFlag bool

// BeforeReset implements a hook of kong.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	fmt.Fprintln(app.Stdout, programVersion())
	app.Exit(cli.ExitOK)
	return nil
}

// version is what the build knows about its source.
type version struct {
	Name string `json:"name"`
	// Version is that of the program's module; [facade.Version] if the build does not know it.
	Version string `json:"version"`
	// Revision is the commit; empty if the build does not know it. Modified says that the
	// files differed from it.
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// String returns the version in one line.
func (v version) String() string {
	text := v.Name + " " + v.Version
	if v.Revision != "" {
		text += fmt.Sprintf(" (revision %.12s", v.Revision)
		if v.Time != "" {
			text += " of " + v.Time
		}
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + " " + v.Go
}

func programVersion() version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) version {
	v := version{Name: "mcpvisor", Version: info.Main.Version, Go: info.GoVersion}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = facade.Version()
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
