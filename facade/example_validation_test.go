package facade_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Wrong arguments are found before anything is sent.
func ExampleWithValidation() {
	ctx := context.Background()
	client, err := facade.New(facade.WithValidation())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "notes", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.CallTool(ctx, "notes/echo", map[string]any{"text": 7})
	var wrong *facade.ArgumentError
	if errors.As(err, &wrong) {
		fmt.Println(wrong.Path, wrong.Rule)
	}
	fmt.Println(err)
	// Output:
	// text type
	// call notes/echo: invalid; nothing was sent: argument text: it must be a string, and is an integer (type)
}
