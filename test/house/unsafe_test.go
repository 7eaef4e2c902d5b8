package house

import (
	"go/ast"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayUseUnsafe are the files that import unsafe, and why. Arguments and results of system
// calls need it. Nothing else in the program may: no field of another library, no
// comparison of functions, no allocation saved.
var mayUseUnsafe = map[string]string{
	"transport/internal/process/group_linux.go":            "a member of siginfo_t",
	"transport/internal/process/group_windows.go":          "an argument of SetInformationJobObject",
	"transport/internal/process/descendants/proc_linux.go": "the layout of linux_dirent64",
	"test/fixture/process/signal_linux.go":                 "an argument of rt_sigaction",
	"internal/jsonscan/unquote.go":                         "the one exception: strings that share the memory of a message, which carry the speed of the parser",
	"bench/driver_facade.go":                               "no part of the program",
}

// TestUnsafe: package unsafe is for system calls, and no function is told by its name.
func TestUnsafe(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range sources(t) {
		if !file.isGo() || file.isTest() {
			continue
		}
		require.NotContains(t, string(file.text), "runtime.FuncForPC(", file.path)
		parsed := file.parse(t)
		if !slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"unsafe"` }) {
			continue
		}
		seen[file.path] = true
		require.NotEmpty(t, mayUseUnsafe[file.path], "%s imports unsafe", file.path)
	}
	for path := range mayUseUnsafe {
		require.True(t, seen[path], "%s does not import unsafe; remove it from the list", path)
	}
}
