package envelope

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:            "",
		`{"jsonrpc":"2.0","method":"x"}`:                      "",
		`{"jsonrpc":"2.0","id":{},"result":{}}`:               "",
		`[]`:                                                  "it must be an object",
		`{"id":1,"method":"x"}`:                               `jsonrpc must be "2.0"`,
		`{"jsonrpc":"2.0"}`:                                   "it has neither a method nor an id",
		`{"jsonrpc":"2.0","id":1,"method":7}`:                 "the method must be a text",
		`{"jsonrpc":"2.0","id":1,"method":""}`:                "the method must be a text",
		`{"jsonrpc":"2.0","id":1,"id":1,"method":"x"}`:        "id is there twice",
		`{"jsonrpc":"2.0","id":null,"method":"x"}`:            "the id must be a text or a whole number",
		`{"jsonrpc":"2.0","id":1.5,"method":"x"}`:             "the id must be a text or a whole number",
		`{"jsonrpc":"2.0","id":1e400,"method":"x"}`:           "the id must be a text or a whole number",
		`{"jsonrpc":"2.0","id":9007199254740993,"method":""}`: "the method must be a text",
	} {
		_, err := Read([]byte(text))
		if want == "" {
			require.NoError(t, err, text)
		} else {
			require.EqualError(t, err, want, text)
		}
	}
	m, err := Read([]byte(`{"id":"a","params":[1],"method":"x","jsonrpc":"2.0"}`))
	require.NoError(t, err)
	require.Equal(t, Message{ID: []byte(`"a"`), Params: []byte(`[1]`), Method: "x"}, m)
}

func TestKey(t *testing.T) {
	for _, same := range [][]string{{`1`, `1.0`, `10e-1`}, {`0`, `-0`}, {`"<a>"`, `"\u003ca\u003e"`, `"\u003Ca>"`}, {`null`, `{}`, `true`, `1.5`, ``}} {
		for _, id := range same {
			require.Equal(t, Key([]byte(same[0])), Key([]byte(id)), id)
		}
	}
	require.NotEqual(t, Key([]byte(`1`)), Key([]byte(`"1"`)))
}

func TestRequestID(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":2,"method":7}`:             "2",
		`{"method":"x","id":"a"}`:                         `"a"`,
		`{"jsonrpc":"2.0","id":2,"method":"","method":1}`: "2",
		`{"id":1,"id":2,"method":"x"}`:                    "",
		`{"id":1,"result":{}}`:                            "",
		`{"id":1.5,"method":"x"}`:                         "",
		`{"method":"x"}`:                                  "",
		`[1]`:                                             "",
		`1`:                                               "",
	} {
		require.Equal(t, want, string(RequestID([]byte(text))), text)
	}
}
