// DNS monitor: whether the server answers, with which records, and how fast.
import { NOT_CONNECTED } from '../../network/connect-errors.ts'
import { dnsDefinition, type DnsCode, type DnsMonitor, type DnsRequest } from './definition.ts'
import { failure, type Failure, type FailureCode } from '../../contract/failure.ts'
import { evaluateAssertions, type AssertionSources } from '../assertions/assertions.ts'
import type { DnsObserved } from './observed.ts'
import type { DnsMessage } from '../../network/dns/message.ts'
import { makeDnsPlan, type DnsPlan, type DnsRun } from './connection.ts'
import { probeDns } from './probe.ts'
import { defineMonitor, type AnyMonitorType, type Context } from '../monitor.ts'
import type { Observation, Sample } from '../../contract/observation.ts'
import {
  systemNameServers,
  systemServers,
  NameServers,
  type SystemServers,
} from '../../network/dns/name-servers.ts'
import { verdictOn } from '../probe.ts'
import { connectionSamples, tlsSamples } from '../metrics.ts'

/** Failures that count as a pass with `shouldFail`: no answer, or an error. */
const EXPECTED_BY_SHOULD_FAIL: ReadonlySet<string> = new Set<FailureCode | DnsCode>([
  'DNS_RESPONSE_CODE',
  ...NOT_CONNECTED,
  'TIMEOUT_FIRST_BYTE',
])

/** Makes the DNS monitor type with these system name servers. */
export function createDns(
  system: () => SystemServers,
  nameServers = new NameServers(system),
): AnyMonitorType {
  return defineMonitor({
    definition: dnsDefinition,
    prepare(monitor: DnsMonitor) {
      const plan = makeDnsPlan(monitor)
      return (context) => runDns(monitor, plan, { ...system(), nameServers }, context)
    },
    samples: dnsSamples,
    deadlineMs: (monitor) => monitor.maxResponseTime,
  })
}

/** The DNS type of monitor. */
export const dns = createDns(systemServers, systemNameServers)

async function runDns(
  monitor: DnsMonitor,
  plan: DnsPlan,
  system: DnsRun['system'],
  context: Context,
): Promise<Observation> {
  const probe = await probeDns(plan, system, context)
  const { observed, message } = probe
  const { phases } = observed
  let failures = probe.failure === undefined ? [] : [probe.failure]
  if (message !== undefined)
    failures = await evaluate(monitor.request, message, phases.totalMs, context)
  const probed = { phases, failures }
  const verdict = verdictOn(monitor, probed, EXPECTED_BY_SHOULD_FAIL, message !== undefined)
  return { observed: { ...observed }, ...verdict }
}

async function evaluate(
  { assertions }: DnsRequest,
  message: DnsMessage,
  responseTimeMs: number,
  context: Context,
): Promise<Failure[]> {
  const failures: Failure[] = []
  const assertsCode = assertions.some(({ source }) => source === 'RESPONSE_CODE')
  if (!assertsCode && message.Status !== 'NOERROR') failures.push(wrongCode(message))
  if (assertions.length === 0) return failures
  const sources: AssertionSources = {
    RESPONSE_CODE: { kind: 'value', value: () => message.Status },
    RESPONSE_TIME: { kind: 'value', value: () => responseTimeMs },
    TEXT_ANSWER: { kind: 'text', text: () => message.Answer.map(({ data }) => data).join('\n') },
    JSON_ANSWER: { kind: 'json', text: () => JSON.stringify(message) },
  }
  return [...failures, ...(await evaluateAssertions(assertions, sources, context.signal))]
}

function wrongCode({ Status, Edns }: DnsMessage): Failure {
  const extendedErrors = Edns?.extendedErrors ?? []
  const details = { responseCode: Status, ...(extendedErrors.length > 0 && { extendedErrors }) }
  const why = extendedErrors.map(({ code, name, text }) =>
    [`${code} ${name}`.trim(), text].filter((part) => part !== '').join(': '),
  )
  const because = why.length === 0 ? '' : ` (${why.join('; ')})`
  const message = `the response code is ${Status}, not NOERROR${because}`
  return failure<DnsCode>('DNS_RESPONSE_CODE', message, details)
}

/** The samples of one observation, as `observed` of a DNS monitor has it. */
function dnsSamples(observed: Record<string, unknown>): Sample[] {
  const { recordType, family, phases, counts, response, tls } = observed as unknown as DnsObserved
  const samples: Sample[] = [
    { name: 'probe_dns_query_succeeded', value: response === undefined ? 0 : 1 },
    { name: 'probe_dns_answer_rrs', value: counts?.answers ?? 0 },
    { name: 'probe_dns_authority_rrs', value: counts?.authorities ?? 0 },
    { name: 'probe_dns_additional_rrs', value: counts?.additionals ?? 0 },
  ]
  samples.push(...connectionSamples({ family, phases }, 'probe_dns_duration_seconds'))
  const serial = recordType === 'SOA' ? serialOf(response) : undefined
  if (serial !== undefined) samples.push({ name: 'probe_dns_serial', value: serial })
  if (tls !== undefined) samples.push(...tlsSamples(tls))
  return samples
}

function serialOf(response: DnsObserved['response']): number | undefined {
  const serial = response?.Answer.find(({ type }) => type === 'SOA')?.fields?.['serial']
  return typeof serial === 'number' ? serial : undefined
}
