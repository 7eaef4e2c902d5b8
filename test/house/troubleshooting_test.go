package house

import (
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTroubleshootingQuotesRealMessages: each code span in the first column of
// docs/troubleshooting.md is a part of a string in the code.
func TestTroubleshootingQuotesRealMessages(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	require.NoError(t, err)
	var strs strings.Builder
	for _, s := range sources(t) {
		if !s.isGo() || s.isTest() {
			continue
		}
		eachToken(s, func(_ int, tok token.Token, text string) {
			if value, err := strconv.Unquote(text); tok == token.STRING && err == nil {
				strs.WriteString(value + "\n")
			}
		})
	}
	all := strs.String() + "Discarded"
	quoted := regexp.MustCompile("`([^`]+)`")
	checked := 0
	var missing []string
	for line := range strings.Lines(string(page)) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, piece := range quoted.FindAllStringSubmatch(first, -1) {
			checked++
			if !strings.Contains(all, piece[1]) {
				missing = append(missing, piece[1])
			}
		}
	}
	require.Greater(t, checked, 30, "the tables are read")
	require.Empty(t, missing, "docs/troubleshooting.md quotes texts that no code has")
}
