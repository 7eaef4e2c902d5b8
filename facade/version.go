package facade

import (
	"reflect"
	"runtime/debug"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// develVersion is the version of a build that does not know it.
const develVersion = "devel"

// Version returns the version of this library in the running program, as Go writes versions
// of modules: "v0.4.1", or a pseudo-version of a commit. It is "devel" if the build does not
// know it, as with go run, go test, and a replace directive to a folder.
//
// [New] sends it to servers unless [WithClientInfo] says otherwise; sessions of the package
// gateway, the page of the package web, and mcpvisor --version show the same. Safe for
// concurrent use.
func Version() string { return buildVersion() }

var buildVersion = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return versionIn(info, reflect.TypeFor[mcpvisor.Error]().PkgPath())
})

// versionIn returns the version of a module in a program: the main module, or one that it
// depends on. info may be nil.
func versionIn(info *debug.BuildInfo, module string) string {
	if info == nil {
		return develVersion
	}
	found := debug.Module{}
	if info.Main.Path == module {
		found = info.Main
	}
	for _, m := range info.Deps {
		if m.Path == module {
			found = *m
		}
	}
	if found.Replace != nil {
		found = *found.Replace
	}
	if found.Version == "" || found.Version == "(devel)" {
		return develVersion
	}
	return found.Version
}
