// Metrics whose values are read for each scrape, so that counting costs nothing in between.
import { Counter, Gauge, type Registry } from 'prom-client'

type Labelled = Iterable<readonly [string, number]>

/** A gauge of one value. */
export function scrapedGauge(
  registry: Registry,
  name: string,
  help: string,
  value: () => number,
): Gauge {
  return new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(value())
    },
  })
}

/** A gauge with a value for each of a label's. */
export function scrapedGauges(
  registry: Registry,
  { name, help, label }: { name: string; help: string; label: string },
  values: () => Labelled,
): Gauge {
  return new Gauge({
    name,
    help,
    labelNames: [label],
    registers: [registry],
    collect() {
      this.reset()
      for (const [key, value] of values()) this.set({ [label]: key }, value)
    },
  })
}

/** A counter of one value. */
export function scrapedCounter(
  registry: Registry,
  name: string,
  help: string,
  value: () => number,
): Counter {
  return new Counter({
    name,
    help,
    registers: [registry],
    collect() {
      this.reset()
      this.inc(value())
    },
  })
}

/** A counter with a value for each of a label's. */
export function scrapedCounters(
  registry: Registry,
  { name, help, label }: { name: string; help: string; label: string },
  values: () => Labelled,
): Counter {
  return new Counter({
    name,
    help,
    labelNames: [label],
    registers: [registry],
    collect() {
      this.reset()
      for (const [key, value] of values()) this.inc({ [label]: key }, value)
    },
  })
}
