// Metrics whose values are read for each scrape, so that counting costs nothing in between.
import { Counter, Gauge, type Registry } from 'prom-client'

type Labelled = Iterable<readonly [string, number]>

interface Description {
  name: string
  help: string
  label?: string
}

function scraped<Metric extends typeof Counter | typeof Gauge>(
  Kind: Metric,
  registry: Registry,
  { name, help, label }: Description,
  values: () => Labelled,
): InstanceType<Metric> {
  return new Kind({
    name,
    help,
    labelNames: label === undefined ? [] : [label],
    registers: [registry],
    collect(this: Counter | Gauge) {
      this.reset()
      for (const [key, value] of values())
        this.inc(label === undefined ? {} : { [label]: key }, value)
    },
  }) as InstanceType<Metric>
}

/** A gauge of one value. */
export function scrapedGauge(registry: Registry, name: string, help: string, value: () => number) {
  return scraped(Gauge, registry, { name, help }, () => [['', value()]])
}

/** A gauge with a value for each of a label's. */
export function scrapedGauges(
  registry: Registry,
  description: Required<Description>,
  values: () => Labelled,
) {
  return scraped(Gauge, registry, description, values)
}

/** A counter of one value. */
export function scrapedCounter(
  registry: Registry,
  name: string,
  help: string,
  value: () => number,
) {
  return scraped(Counter, registry, { name, help }, () => [['', value()]])
}

/** A counter with a value for each of a label's. */
export function scrapedCounters(
  registry: Registry,
  description: Required<Description>,
  values: () => Labelled,
) {
  return scraped(Counter, registry, description, values)
}
