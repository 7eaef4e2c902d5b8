package facade_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A host asks its user before tools that may change something, and keeps an audit log.
func ExampleWithInterceptor() {
	ctx := context.Background()
	askUser := func(question string) bool { fmt.Println(question); return false }
	audit := func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
		result, err := next(ctx, call)
		fmt.Printf("audit: %s %s: %v\n", call.Name(), call.Arguments, err)
		return result, err
	}
	confirm := func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
		readOnly := call.Definition != nil && call.Definition.Annotations != nil && call.Definition.Annotations.ReadOnlyHint
		if !readOnly && !askUser("May "+call.Name()+" run?") {
			return facade.CallResult{}, errors.New("the user declined")
		}
		return next(ctx, call)
	}
	client, err := facade.New(facade.WithInterceptor(audit), facade.WithInterceptor(confirm))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		fmt.Println(err)
		return
	}
	_, _ = client.CallTool(ctx, "s/echo", map[string]any{"text": "hello"})
	_, _ = client.CallTool(ctx, "s/count", map[string]any{"key": "k"})
	// Output:
	// audit: s/echo {"text":"hello"}: <nil>
	// May s/count run?
	// audit: s/count {"key":"k"}: the user declined
}
