// Heartbeats in a monitors file, which no agent runs: validate accepts them, check leaves them out, and both name them.
import { describe, expect, test } from 'vitest'
import { startVedette } from '../support/platform/platform-process.ts'
import { temporaryFile } from '../support/temporary-folder.ts'
import { startHttpServer } from '../support/test-server.ts'

const pulse = (period: number) =>
  `  - {name: Nightly, type: HEARTBEAT, heartbeat: {period: ${period}, periodUnit: days, grace: 1, graceUnit: days}}\n`
const file = (...monitors: string[]) =>
  temporaryFile('monitors.yaml', `monitors:\n${monitors.join('')}`)
const NAMED = /^vedette (?:check|validate): heartbeats run on a platform only .*: nightly\n$/

describe('a file with a heartbeat', () => {
  test('is valid; its definition is checked too', async () => {
    const good = await startVedette(['validate', file(pulse(1))], {}).ended
    expect([good.code, good.stdout]).toEqual([0, expect.stringContaining('1 monitor, no problem')])
    expect(good.stderr).toMatch(NAMED)
    const bad = await startVedette(['validate', file(pulse(999))], {}).ended
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining('heartbeat.period')])
  })

  test('has its other monitors checked', async () => {
    await using server = await startHttpServer((_, response) => response.end())
    const page = `  - {name: Page, type: URL, request: {url: "http://${server.authority}/"}}\n`
    const path = file(pulse(1), page)
    const all = await startVedette(['check', path, '--json'], {}).ended
    const names = all.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).monitorName)
    expect([all.code, names]).toEqual([0, ['Page']])
    expect(all.stderr).toMatch(NAMED)
    const one = await startVedette(['check', path, '--only', 'page'], {}).ended
    expect([one.code, one.stderr]).toEqual([0, ''])
  })

  test('has nothing to check where there is no other monitor', async () => {
    const { code, stdout, stderr } = await startVedette(['check', file(pulse(1))], {}).ended
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(NAMED)
  })
})
