package jsonscan

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// valueOf returns the value of a node, as Decode would.
func valueOf(t *Tree, i int) any {
	switch t.First(i) {
	case '{':
		m := map[string]any{}
		for name := i + 1; name < t.Next(i); name = t.Next(name + 1) {
			m[t.String(name)] = valueOf(t, name+1)
		}
		return m
	case '[':
		list := []any{}
		for item := i + 1; item < t.Next(i); item = t.Next(item) {
			list = append(list, valueOf(t, item))
		}
		return list
	case '"':
		return t.String(i)
	case 't', 'f':
		return t.First(i) == 't'
	case 'n':
		return nil
	}
	n, _ := t.Number(i)
	return n
}

// A tree has the values that Decode returns, whatever it held before.
func TestTree_agrees_with_Decode(t *testing.T) {
	var tree Tree
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(anyJSON(3).Draw(t, "value"))
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "broken") { // at any place
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			text = append(text[:at:at], text[at+1:]...)
		}
		text = append([]byte(" "), append(text, '\n')...)
		want, err := DecodeContext(context.Background(), text)
		broken := tree.Parse(context.Background(), text, 1<<16)
		require.Equal(t, err == nil, broken == nil, "%s", text)
		if err == nil {
			require.Equal(t, want, valueOf(&tree, 0), "%s", text)
			require.Equal(t, strings.TrimSpace(string(text)), string(tree.Text(0)))
		}
	})
}

func TestTree_Parse_is_bounded(t *testing.T) {
	var tree Tree
	require.NoError(t, tree.Parse(t.Context(), []byte(`{"a":[1,2]}`), 5))
	require.ErrorIs(t, tree.Parse(t.Context(), []byte(`{"a":[1,2,3]}`), 5), ErrTooManyValues)
	require.LessOrEqual(t, tree.Cap(), 8)
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	require.NoError(t, tree.Parse(t.Context(), deep(maxTreeDepth), 1<<20))
	require.ErrorIs(t, tree.Parse(t.Context(), deep(maxTreeDepth+1), 1<<20), ErrTooDeep)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, tree.Parse(ended, []byte("["+strings.Repeat("1,", checkEvery)+"1]"), 1<<20), context.Canceled)
}
