// Aim: no image compiles its own code at a start, with any user: its own, root, or an arbitrary one.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { type Image, needImages, tagOf } from '../support/container/images.ts'

const run = promisify(execFile)
const IMAGES: Image[] = ['agent-uptime', 'agent', 'agent-migrate', 'platform']
needImages(...IMAGES)

// Messages of Node.js about a missing or unusable cache.
const MADE_ANEW = /for (\S+)(?:\.\.\.)? ?(?:was not initialized|was rejected|permission denied)/g

describe.each(IMAGES)('%s', (image) => {
  test.each(['10001', '0', '1000770000'])('as user %s', async (user) => {
    const home = `/var/lib/vedette:uid=${user},mode=700`
    const args = ['run', '--rm', '--read-only', '--cap-drop', 'ALL', '--user', user]
    args.push('--tmpfs', home, '-e', 'NODE_DEBUG_NATIVE=COMPILE_CACHE')
    const { stdout, stderr } = await run('docker', [...args, tagOf(image), '--version'], {
      maxBuffer: 16_777_216,
    })
    expect([...(stdout + stderr).matchAll(MADE_ANEW)].map(([, file]) => file)).toEqual([])
    expect(stdout + stderr).toContain('was accepted')
  })
})
