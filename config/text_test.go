package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText_position(t *testing.T) {
	for _, data := range []string{"", "a", "\n", "a\nbc\n\nd", "a\n"} {
		text := &text{data: []byte(data)}
		for offset := -1; offset <= len(data)+1; offset++ {
			before := data[:min(max(offset, 0), len(data))]
			line, column := text.position(offset)
			require.Equal(t, 1+strings.Count(before, "\n"), line, "%q %d", data, offset)
			require.Equal(t, len(before)-strings.LastIndexByte(before, '\n'), column, "%q %d", data, offset)
		}
	}
}

// A long file with one line costs time in proportion to its length. With the square of it, this
// takes minutes.
func TestParse_many_entries_in_one_line(t *testing.T) {
	const n = 100_000
	file, err := Parse([]byte(`{"mcpServers":{`+strings.Repeat(`"a":{"command":"x"},`, n)+`}}`), "f.json")
	require.NoError(t, err)
	require.Len(t, file.Servers, 1)
	require.Len(t, file.Problems, n-1)
}
