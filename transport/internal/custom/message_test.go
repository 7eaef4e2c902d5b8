package custom

import (
	"errors"
	"fmt"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"
)

func TestAppendMessage(t *testing.T) {
	id := func(v any) sdkrpc.ID {
		made, err := sdkrpc.MakeID(v)
		require.NoError(t, err)
		return made
	}
	for name, c := range map[string]struct {
		message sdkrpc.Message
		line    string
	}{
		"request":              {&sdkrpc.Request{ID: id(7.0), Method: "ping"}, `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		"request, text id":     {&sdkrpc.Request{ID: id("a\"\n"), Method: "x\ny", Params: []byte(`{}`)}, `{"jsonrpc":"2.0","id":"a\"\n","method":"x\ny","params":{}}`},
		"notification":         {&sdkrpc.Request{Method: "n", Params: []byte("{\n\"a\":\n1}")}, `{"jsonrpc":"2.0","method":"n","params":{ "a": 1}}`},
		"result":               {&sdkrpc.Response{ID: id(1.0), Result: []byte(`{"a":1}`)}, `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`},
		"neither":              {&sdkrpc.Response{ID: id(1.0)}, `{"jsonrpc":"2.0","id":1}`},
		"no id":                {&sdkrpc.Response{Result: []byte(`1`)}, `{"jsonrpc":"2.0","id":null,"result":1}`},
		"error":                {&sdkrpc.Response{ID: id(1.0), Error: &sdkrpc.Error{Code: -1, Message: "no", Data: []byte(`[1]`)}}, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":[1]}}`},
		"error, data not JSON": {&sdkrpc.Response{ID: id(1.0), Error: &sdkrpc.Error{Code: -1, Message: "no", Data: []byte(`[`)}}, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`},
		"error, wrapped":       {&sdkrpc.Response{ID: id(1.0), Error: fmt.Errorf("outer: %w", &sdkrpc.Error{Code: -2, Message: "no"})}, `{"jsonrpc":"2.0","id":1,"error":{"code":-2,"message":"outer: no"}}`},
		"error of Go":          {&sdkrpc.Response{ID: id(1.0), Error: errors.New("no")}, `{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"no"}}`},
		"result is not JSON":   {&sdkrpc.Response{ID: id(1.0), Result: []byte("{\n")}, `{"jsonrpc":"2.0","id":1,"result":{ }`},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := appendMessage([]byte("x"), c.message)
			require.NoError(t, err)
			require.Equal(t, "x"+c.line+"\n", string(line))
		})
	}
	for _, none := range []sdkrpc.Message{nil, (*sdkrpc.Request)(nil), (*sdkrpc.Response)(nil)} {
		_, err := appendMessage(nil, none)
		require.ErrorIs(t, err, errNoMessage)
	}
}
