// Watches over an answer that may come slowly: it has as long as it needs while it goes on coming, within a
// bound, and one whose line has died is given up soon.

/** How slowly an answer may come, from its first byte on. */
export interface AnswerPaceBounds {
  /** Without a byte for so long it does not come any more. */
  idleMs: number
  /** Until its last byte, however steadily it comes. */
  wholeMs: number
}

/** An answer that is coming. */
export interface AnswerPace {
  /** Some of it came. */
  came(): void
  /** To be called in any case. */
  end(): void
}

/** Begins to watch; calls back, with the bound that was passed, when the answer is too slow. */
export function watchPace(bounds: AnswerPaceBounds, onLate: (ms: number) => void): AnswerPace {
  const { idleMs, wholeMs } = bounds
  const silence = setTimeout(() => onLate(idleMs), idleMs)
  const whole = setTimeout(() => onLate(wholeMs), wholeMs)
  return {
    came: () => void silence.refresh(),
    end() {
      clearTimeout(silence)
      clearTimeout(whole)
    },
  }
}
