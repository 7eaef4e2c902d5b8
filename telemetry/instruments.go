package telemetry

import (
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// scope is the name of the instrumentation.
const scope = "github.com/mcpvisor/mcpvisor/telemetry"

// instruments are made from the table. They do not change after newInstruments.
type instruments struct {
	meter      metric.Meter
	histograms map[string]metric.Float64Histogram
	counters   map[string]metric.Int64Counter
	// ints and floats are the observed instruments; floats are those in seconds.
	ints   map[string]metric.Int64Observable
	floats map[string]metric.Float64Observable
	// static are the attributes of every series, those of WithAttributes.
	static []attribute.KeyValue
}

// with returns the attributes of a series. Its own win over static ones of the same key.
func (i *instruments) with(own ...attribute.KeyValue) metric.MeasurementOption {
	all := slices.Concat(i.static, own) // a copy, which NewSet sorts
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// newInstruments makes an instrument for each row of the table.
func newInstruments(provider metric.MeterProvider, static []attribute.KeyValue) (*instruments, error) {
	i := &instruments{meter: provider.Meter(scope), static: static, histograms: map[string]metric.Float64Histogram{}, counters: map[string]metric.Int64Counter{},
		ints: map[string]metric.Int64Observable{}, floats: map[string]metric.Float64Observable{}}
	for _, def := range table {
		if err := i.add(def); err != nil {
			return nil, fmt.Errorf("metric %s: %w", def.name, err)
		}
	}
	return i, nil
}

func (i *instruments) add(def metricDef) (err error) {
	unit, description := metric.WithUnit(def.unit), metric.WithDescription(def.description)
	switch {
	case def.kind == histogram:
		i.histograms[def.name], err = i.meter.Float64Histogram(def.name, unit, description, metric.WithExplicitBucketBoundaries(def.buckets...))
	case !def.observed:
		i.counters[def.name], err = i.meter.Int64Counter(def.name, unit, description)
	case def.unit == "s" && def.kind == counter:
		i.floats[def.name], err = i.meter.Float64ObservableCounter(def.name, unit, description)
	case def.unit == "s":
		i.floats[def.name], err = i.meter.Float64ObservableGauge(def.name, unit, description)
	case def.kind == counter:
		i.ints[def.name], err = i.meter.Int64ObservableCounter(def.name, unit, description)
	case def.kind == upDownCounter:
		i.ints[def.name], err = i.meter.Int64ObservableUpDownCounter(def.name, unit, description)
	default:
		i.ints[def.name], err = i.meter.Int64ObservableGauge(def.name, unit, description)
	}
	return err
}

// observed are all observed instruments, for the registration of their callback.
func (i *instruments) observed() (all []metric.Observable) {
	for _, o := range i.ints {
		all = append(all, o)
	}
	for _, o := range i.floats {
		all = append(all, o)
	}
	return all
}
