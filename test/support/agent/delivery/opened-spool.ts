// A spool on real files for tests, in the folder of an agent.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DroppedSpans } from '../../../../src/agent/delivery/dropped-spans.ts'
import { openAgentFolder } from '../../../../src/agent/delivery/spool/agent-folder.ts'
import { Spool, type SpoolOptions } from '../../../../src/agent/delivery/spool/spool.ts'
import { collectingLog } from '../../collecting-log.ts'
import { FAKE_KEY } from '../fake-platform.ts'

/** Opens the spool of the first agent of a DATA_DIR. */
export async function openSpool(dataDir: string, changes: Partial<SpoolOptions> = {}) {
  const { log, lines } = collectingLog()
  const folder =
    changes.folder ??
    (await openAgentFolder({ dataDir, apiKey: FAKE_KEY, onLost: () => undefined }))
  const spool = new Spool({
    folder,
    bytesMax: 64 * 1024 * 1024,
    log,
    dropped: new DroppedSpans(folder),
    shareRoom: () => undefined,
    onMore: () => undefined,
    ...changes,
  })
  await spool.load()
  const path = join(folder.path ?? '', `spool.${folder.cipher.fingerprint}`)
  return {
    spool,
    folder,
    lines,
    path,
    files: () => (existsSync(path) ? readdirSync(path) : []),
    /** As after a kill: its files stay as they are. */
    kill: () => folder.close(),
  }
}

/** The entries of all older results, which are forgotten. */
export async function readAll(spool: Spool): Promise<string[]> {
  const entries: string[] = []
  for (;;) {
    const some = await spool.takeOld()
    if (some.length === 0) return entries
    for (const one of some) {
      for (const entry of one.entries ?? []) {
        entries.push(entry)
        await spool.forget(one)
      }
    }
  }
}
