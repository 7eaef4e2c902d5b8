package schema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/test/schematest"
)

// TestFormats_of_any_JSON: whatever a server sends as a schema, each provider gets what it
// takes, and the same each time.
func TestFormats_of_any_JSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input, err := json.Marshal(schematest.DrawJSON(t, 4))
		require.NoError(t, err)
		for _, provider := range slices.Sorted(maps.Keys(formats)) {
			f, notes := formats[provider](tool("s", "t", "", string(input)))
			m := parametersOf(f)
			text, err := json.Marshal(m)
			require.NoError(t, err)
			var read map[string]any
			require.NoError(t, json.Unmarshal(text, &read))
			require.Empty(t, providerRules[provider].check("t", "", read), "%s: %s becomes %s", provider, input, text)

			s := new(jsonschema.Schema)
			require.NoError(t, json.Unmarshal(text, s), "%s: %s becomes %s", provider, input, text)
			again, sameNotes := formats[provider](tool("s", "t", "", string(input)))
			require.Equal(t, f, again)
			require.Equal(t, notes, sameNotes)
		}
	})
}
