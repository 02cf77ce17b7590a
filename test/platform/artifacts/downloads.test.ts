// Aim: an aborted download leaves no file open, or a client could exhaust the file descriptors of the process.
import { randomBytes } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createArtifactFolder } from '../../../src/platform/artifacts/folder.ts'
import {
  type ArtifactScene,
  useArtifactApis,
} from '../../support/platform/artifacts/artifact-apis.ts'
import { useDatabase } from '../../support/database/database.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const root = temporaryFolder()
const { scene, put, listed, get } = useArtifactApis(useDatabase(), () =>
  createArtifactFolder(join(root, 'artifacts')),
)

const filesOpen = () =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(root)
    } catch {
      return false
    }
  })

const headersOf = ({ client }: ArtifactScene) => ({
  authorization: `Bearer ${client.secret}`,
  'x-service-account': client.accountId,
})

test.each<[string, (url: string, one: ArtifactScene) => Promise<Response>]>([
  ['its head alone', (url, one) => fetch(url, { method: 'HEAD', headers: headersOf(one) })],
  [
    'the beginning of it',
    async (url, one) => {
      const stop = new AbortController()
      const response = await fetch(url, { signal: stop.signal, headers: headersOf(one) })
      stop.abort()
      return response
    },
  ],
])('%s', async (_sentence, ask) => {
  const one = await scene()
  const body = randomBytes(8 * 1024 * 1024)
  await put(one, { body })
  const whole = await get(one, (await listed(one))[0]?.id ?? '')
  await whole.arrayBuffer()
  for (let times = 0; times < 10; times++) {
    const response = await ask(whole.url, one)
    const length = response.headers.get('content-length')
    expect([response.status, length]).toEqual([200, String(body.length)])
  }
  await expect.poll(filesOpen).toEqual([])
})
