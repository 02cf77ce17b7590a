// Aim: only what really answers an echo counts as its answer. Duplicates, leftovers, forgeries, damage and
// late replies are distinguished, whatever other packets arrive, and through both kinds of sockets.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import type { IcmpObserved } from '../../../src/monitors/icmp/observed.ts'
import type { Observation } from '../../../src/contract/observation.ts'
import type { Answers } from '../../support/monitors/icmp/echo-answers.ts'
import { missing } from '../../support/needs.ts'

const why = missing('ip') ?? (process.getuid?.() === 0 ? undefined : 'needs root')
const run = promisify(execFile)
const program = new URL('../../support/monitors/icmp/echo-answers.ts', import.meta.url).pathname

/** Runs the monitor against such answers, in a namespace of its own. */
async function observe(
  kind: 'datagram' | 'raw',
  answers: Answers,
  request: Record<string, unknown>,
): Promise<Observation> {
  const range = kind === 'datagram' ? '0 2147483647' : '1 0'
  const commands = `
    ip link set lo up
    sysctl -qw net.ipv4.icmp_echo_ignore_all=1 net.ipv4.ping_group_range="${range}"
    exec "$0" "$@"`
  const options = JSON.stringify({ request: { hostname: '127.0.0.1', ...request } })
  const args = ['-n', 'sh', '-ec', commands, process.execPath, program, answers, options]
  const { stdout } = await run('unshare', args)
  return JSON.parse(stdout) as Observation
}

const LOST = ['ICMP_PACKET_LOSS']
const SHORT = { request: { timeoutMs: 120 } }
const LATE = { request: { timeoutMs: 100, intervalMs: 100 }, counts: { late: 3 } }

interface More {
  request?: Record<string, unknown>
  counts?: Partial<IcmpObserved>
  /** Name of the error. */
  error?: string
}

const CASES: [answers: Answers, received: number, codes?: string[], more?: More][] = [
  ['right', 4],
  ['swapped', 4, [], { counts: { outOfOrder: 2 } }],
  ['one of four changed', 3, LOST, { counts: { corrupted: 1 } }],
  ['cut short', 0, LOST, { counts: { corrupted: 4 } }],
  ['too long', 0, LOST, { counts: { corrupted: 4 } }],
  ['without payload', 0, LOST, SHORT],
  ['with another token', 0, LOST, SHORT],
  ['with another sequence', 0, LOST, SHORT],
  ['with another identifier', 0, LOST, SHORT],
  ['late', 0, LOST, LATE],
  ['from another address', 4],
  ['a forged objection, then the reply', 4],
  ['a forged objection', 0, ['ICMP_UNREACHABLE', ...LOST], { ...SHORT, error: 'host unreachable' }],
  ['an objection with another token, then the reply', 4],
  ['the reply, then an objection', 4],
  ['an objection', 0, ['ICMP_REJECTED', ...LOST], { error: 'parameter problem' }],
  ['garbage, then the reply', 4],
]

describe.skipIf(why !== undefined).each(['datagram', 'raw'] as const)(
  `through a %s socket ${why ?? ''}`,
  (kind) => {
    test.each(CASES)('%s: %i of 4', async (answers, received, codes = [], more = {}) => {
      const { request, counts, error } = more
      const observation = await observe(kind, answers, {
        pingCount: 4,
        intervalMs: 40,
        timeoutMs: 1000,
        ...request,
      })
      expect(observation.failures.map(({ code }) => code)).toEqual(codes)
      expect(observation.observed).toMatchObject({
        socket: kind,
        packetsSent: 4,
        packetsReceived: received,
        duplicates: 0,
        outOfOrder: 0,
        corrupted: 0,
        late: 0,
        ...counts,
      })
      const { errors } = observation.observed as unknown as IcmpObserved
      expect(errors.map((said) => said.error)).toEqual(error === undefined ? [] : [error])
    })

    test('a second reply is a duplicate', async () => {
      const { observed, failures } = await observe(kind, 'twice', { pingCount: 5, intervalMs: 40 })
      expect(failures).toEqual([])
      expect(observed).toMatchObject({ packetsReceived: 5, packetLoss: 0 })
      // The last reply ends the run; its double may come too late to be seen.
      expect([4, 5]).toContain(observed['duplicates'])
    })
  },
)
