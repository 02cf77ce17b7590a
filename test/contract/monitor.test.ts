// Aim: the fields that all monitors share have the bounds and defaults of the public contract.
import { expect, test } from 'vitest'
import { UrlMonitor } from '../../src/contract/http-monitor.ts'
import { Monitor } from '../../src/contract/monitor.ts'

const url = 'http://example.com/'
const least = { id: 'a', name: 'A', checkType: 'URL', request: { url } }

const problemsOf = (fields: Record<string, unknown>) =>
  (UrlMonitor.safeParse({ ...least, ...fields }).error?.issues ?? []).map(({ path }) =>
    path.join('.'),
  )

test('the least definition gets every default', () => {
  expect(UrlMonitor.parse(least)).toEqual({
    ...least,
    description: null,
    activated: true,
    muted: false,
    shouldFail: false,
    doubleCheck: true,
    locations: [],
    tags: [],
    frequency: 10,
    runParallel: false,
    groupId: null,
    groupOrder: null,
    runtimeId: null,
    useGlobalAlertSettings: true,
    alertChannelSubscriptions: [],
    retryStrategy: null,
    triggerIncident: null,
    environmentVariables: [],
    degradedResponseTime: 3000,
    maxResponseTime: 5000,
    request: {
      url,
      method: 'GET',
      followRedirects: true,
      skipSSL: false,
      ipFamily: 'IPv4',
      allAddresses: false,
      assertions: [],
    },
  })
})

const serviceId = '0f8fad5b-d9cb-469f-a165-70867728950e'
const down = { severity: 'MAJOR', name: 'down', description: '', notifySubscribers: false }
const incident = { serviceId, ...down }
const SERVICE = 'triggerIncident.serviceId'
const DURATION = 'retryStrategy.maxDurationSeconds'
const VARIABLE = 'environmentVariables.0.key'
const AMOUNT = 'alertSettings.reminders.amount'
const retry = { type: 'FIXED' }

const MANY = Array.from({ length: 201 }, (_, n) => ({ key: `V${n}`, value: '' }))

test.each<[string, Record<string, unknown>, ...paths: string[]]>([
  ['a description of 510 characters', { description: 'x'.repeat(510) }],
  ['59 seconds', { frequency: 0, frequencyOffset: 59 }],
  ['an offset of minutes, which has no effect', { frequency: 10, frequencyOffset: 720 }],
  ['no locations at all', { locations: null, privateLocations: null }],
  ['an incident to open', { triggerIncident: incident }],
  ['a reference in a deployment', { triggerIncident: { ...incident, serviceId: { ref: 's' } } }],
  ['retries on network errors only', { retryStrategy: { ...retry, onlyOn: ['NETWORK_ERROR'] } }],
  ['10 retries', { retryStrategy: { ...retry, maxRetries: 10, maxDurationSeconds: 600 } }],
  ['alert settings', { alertSettings: { reminders: { amount: 100_000, interval: 30 } } }],
  ['escalation', { alertSettings: { runBasedEscalation: { failedRunThreshold: 5 } } }],
  ['parallel', { alertSettings: { parallelRunFailureThreshold: { percentage: 100 } } }],
  ['45 s at most', { maxResponseTime: 45_000, degradedResponseTime: 45_000 }],
  ['200 variables', { environmentVariables: MANY.slice(1) }],
  ['an empty name', { name: '' }, 'name'],
  ['a description of 511 characters', { description: 'x'.repeat(511) }, 'description'],
  ['3 minutes', { frequency: 3 }, 'frequency'],
  ['a frequency beyond numbers', { frequency: Infinity }, 'frequency'],
  ['no seconds', { frequency: 0 }, 'frequencyOffset'],
  ['60 seconds', { frequency: 0, frequencyOffset: 60 }, 'frequencyOffset'],
  ['an offset of 0', { frequency: 10, frequencyOffset: 0 }, 'frequencyOffset'],
  ['an unknown key', { frequence: 10 }, ''],
  ['another type of monitor', { checkType: 'TCP' }, 'checkType'],
  ['an empty location', { locations: [''] }, 'locations.0'],
  ['a service that is no GUID', { triggerIncident: { ...incident, serviceId: 'x' } }, SERVICE],
  ['11 retries', { retryStrategy: { ...retry, maxRetries: 11 } }, 'retryStrategy.maxRetries'],
  ['601 s of retries', { retryStrategy: { ...retry, maxDurationSeconds: 601 } }, DURATION],
  ['45,001 ms', { maxResponseTime: 45_001 }, 'maxResponseTime'],
  ['a negative threshold', { degradedResponseTime: -1 }, 'degradedResponseTime'],
  ['201 variables', { environmentVariables: MANY }, 'environmentVariables'],
  ['a blank in a name', { environmentVariables: [{ key: 'A B', value: '' }] }, VARIABLE],
  ['6 reminders', { alertSettings: { reminders: { amount: 6 } } }, AMOUNT],
])('%s', (_, fields, ...paths) => expect(problemsOf(fields)).toEqual(paths))

test('what the type wants stays unknown in the common part', () => {
  const monitor = { ...least, checkType: 'HEARTBEAT', request: undefined, heartbeat: { period: 1 } }
  expect(Monitor.parse(monitor)['heartbeat']).toEqual({ period: 1 })
})

test('the interval is checked together with other fields, and not of what is no monitor', () => {
  expect(problemsOf({ frequency: 0, name: 5 })).toEqual(['name', 'frequencyOffset'])
  expect(problemsOf({ frequency: 0, frequencyOffset: 'a' })).toEqual(['frequencyOffset'])
  expect(UrlMonitor.safeParse(null).success).toBe(false)
})
