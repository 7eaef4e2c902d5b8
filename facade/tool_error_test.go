package facade

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsToolError(t *testing.T) {
	for text, want := range map[string]bool{
		`{"content":[]}`:                                         false,
		`{"content":[],"isError":false}`:                         false,
		`{"content":[],"isError":true}`:                          true,
		"{\"isError\" :\n true}":                                 true,
		`{"isError": null}`:                                      false,
		`{"content":[{"text":"\"isError\":true"}]}`:              false,
		`{"structuredContent":{"isError":true}}`:                 false,
		`{"structuredContent":{"isError":false},"isError":true}`: true,
		`{"isError":true,"structuredContent":{"isError":false}}`: true,
		`{"isError":false,"structuredContent":{"isError":true}}`: false,
		`not JSON "isError"`:                                     false,
		``:                                                       false,
	} {
		require.Equal(t, want, isToolError([]byte(text)), text)
	}
	result := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 100) + `"}],"isError":false}`)
	require.Zero(t, testing.AllocsPerRun(100, func() { isToolError(result) }))
}
