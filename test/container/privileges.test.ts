// Aim: pings and traces work from an image without any capability on a read-only root. With the few privileges of the
// README the rest works; where the system forbids it, the error says what to allow.
import { describe, expect, test } from 'vitest'
import type { WireResult } from '../../src/contract/protocol/agent-protocol.ts'
import type { ContainerOptions } from '../support/container/contained.ts'
import { agentIn, platformFor } from '../support/container/contained-agent.ts'
import { needImages } from '../support/container/images.ts'

needImages('agent-uptime')
const PROTOCOLS = ['ICMP', 'UDP', 'TCP', 'SCTP']
const FORBIDDEN = { 'net.ipv4.ping_group_range': '1 0' }
const RAW = { user: '0', capabilities: ['NET_RAW'] }

const passed = { verdict: 'passed', code: undefined }
const notPermitted = { verdict: 'errored', code: 'ICMP_NOT_PERMITTED' }
const unsupported = { verdict: 'errored', code: 'TRACE_UNSUPPORTED' }

function outcomeOf({ verdict, failures = [] }: WireResult) {
  return { verdict, code: failures[0]?.code }
}

describe('ICMP and traceroute', () => {
  test.each<[string, Partial<ContainerOptions>, { echo: object; traces: object[] }]>([
    ['without any capability', {}, { echo: passed, traces: [passed, passed, passed, unsupported] }],
    [
      'with NET_RAW for a user who cannot use it',
      { capabilities: ['NET_RAW'] },
      { echo: passed, traces: [passed, passed, passed, unsupported] },
    ],
    ['as root with NET_RAW alone', RAW, { echo: passed, traces: [passed, passed, passed, passed] }],
    [
      'as root with NET_RAW alone, where ping_group_range forbids',
      { ...RAW, sysctls: FORBIDDEN },
      { echo: passed, traces: [passed, passed, passed, passed] },
    ],
    [
      'without any capability, where ping_group_range forbids',
      { sysctls: FORBIDDEN },
      { echo: notPermitted, traces: [notPermitted, passed, passed, unsupported] },
    ],
  ])('%s', async (_, options, expected) => {
    const { network, platform } = await platformFor()
    const hostname = network.gateway
    const traces = PROTOCOLS.map((protocol) => ({
      checkType: 'TRACEROUTE',
      frequencyOffset: 30,
      request: { url: hostname, protocol, ...(protocol === 'TCP' && { port: platform.port }) },
    }))
    platform.give([{ checkType: 'ICMP', request: { hostname, pingCount: 3 } }, ...traces])
    const agent = await agentIn(network, platform, options)
    const [echo, ...paths] = await Promise.all(
      [0, 1, 2, 3, 4].map((at) =>
        platform.result(({ monitorId }) => monitorId.endsWith(String(at).padStart(12, '0'))),
      ),
    )
    expect(outcomeOf(echo as WireResult)).toEqual(expected.echo)
    expect(paths.map(outcomeOf)).toEqual(expected.traces)
    const saysHow = echo?.failures?.[0]?.message.includes('docker run --sysctl') === true
    expect(saysHow).toBe(expected.echo === notPermitted)
    const warned = agent.lines.filter(({ level }) => level === 'warn').map(({ msg }) => msg)
    expect(warned.some((msg) => msg?.includes('docker run --sysctl') === true)).toBe(saysHow)
    expect(await agent.stop()).toMatchObject({ code: 0 })
  })
})

describe('vedette doctor next to a running agent', () => {
  test.each<[string, Partial<ContainerOptions>, string]>([
    ['finds that what needs no privilege works', {}, 'works'],
    ['finds what forbids echoes, and the line that fixes it', { sysctls: FORBIDDEN }, 'broken'],
  ])('%s', async (_, options, echoes) => {
    const { network, platform } = await platformFor()
    const agent = await agentIn(network, platform, options)
    await agent.line(({ msg }) => msg === 'agent started')
    const { text } = await agent.exec('vedette', 'doctor', '--json')
    const { place, findings } = JSON.parse(text) as {
      place: string
      findings: { id: string; standing: string; fix?: string }[]
    }
    const of = (id: string) => findings.find((one) => one.id === id)
    expect(place).toBe('container')
    const standings = ['disk', 'icmp', 'traceroute'].map((id) => of(id)?.standing)
    expect(standings).toEqual(['works', echoes, echoes])
    const fixes = of('icmp')?.fix?.includes('docker run --sysctl') === true
    expect(fixes).toBe(echoes === 'broken')
    expect(text).not.toContain('pl_0123456789abcdef')
  })
})
