// The memory of runs and the kills of the kernel, by the files of control groups of both versions.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { memoryKills, memoryOfRuns } from '../../src/sandbox/container-memory.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const MEBIBYTE = 1024 * 1024
const LIMIT = 'memory/memory.limit_in_bytes'
const CONTROL = 'oom_kill_disable 0\nunder_oom 0\noom_kill 3\n'
const EVENTS = 'low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n'

test.each([
  ['version 2', { 'memory.max': `${4096 * MEBIBYTE}\n`, 'memory.events': EVENTS }, 3776, 3],
  ['version 2, small', { 'memory.max': `${512 * MEBIBYTE}\n` }, 256, 0],
  ['version 2, without a bound', { 'memory.max': 'max\n', 'memory.events': EVENTS }, Infinity, 3],
  ['version 1', { [LIMIT]: `${1024 * MEBIBYTE}\n`, 'memory/memory.oom_control': CONTROL }, 704, 3],
  ['version 1, without a bound', { [LIMIT]: '9223372036854771712\n' }, Infinity, 0],
  ['none', {}, Infinity, 0],
])('%s', (_, files, mebibytes, kills) => {
  const group = temporaryFolder()
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(group, path)), { recursive: true })
    writeFileSync(join(group, path), text)
  }
  const most = memoryOfRuns(group)
  // Far above what any run has.
  expect(most > 2 ** 60 ? Infinity : most / MEBIBYTE).toBe(mebibytes)
  expect(memoryKills(group)).toBe(kills)
})
