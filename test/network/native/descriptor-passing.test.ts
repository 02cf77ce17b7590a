// Aim: bytes sent with a descriptor arrive complete, even if garbage is collected in the middle.
import { closeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test } from 'vitest'
import {
  descriptorPair,
  receiveDescriptor,
  sendDescriptor,
} from '../../../src/network/native/descriptor-passing.ts'

const ROUNDS = 20

/** Collects garbage and overwrites the freed memory whenever an address was written. */
function collectAtEveryAddress(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const write = Buffer.prototype.writeBigUInt64LE
  const later: Buffer[] = []
  // A spy would reference each buffer, which would then not be collected.
  Buffer.prototype.writeBigUInt64LE = function (this: Buffer, value: bigint, offset?: number) {
    const at = write.call(this, value, offset)
    collect()
    for (let n = 0; n < 50; n++) later[n] = Buffer.alloc(16, 255)
    return at
  }
  onTestFinished(() => {
    Buffer.prototype.writeBigUInt64LE = write
  })
}

test('a line and a descriptor arrive as sent', async () => {
  const [ours, theirs] = descriptorPair()
  collectAtEveryAddress()
  for (let round = 0; round < ROUNDS; round++) {
    sendDescriptor(theirs, Buffer.from(`line ${round}\n`), 1)
    const { bytes, descriptor } = await receiveDescriptor(ours, 4096)
    expect(bytes.toString()).toBe(`line ${round}\n`)
    expect(descriptor).toBeGreaterThan(2)
    closeSync(descriptor ?? -1)
  }
  for (const end of [ours, theirs]) closeSync(end)
})
