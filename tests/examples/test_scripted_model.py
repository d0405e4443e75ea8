from examples import scripted_model
from rotoscope.replayer.simulator import model as simulator
from rotoscope.replayer.simulator.tokenizer import encode


def test_to_a_conversation_of_no_agent_it_says_so() -> None:
    request = simulator.ModelRequest(encode("x"), messages=(simulator.Message("user", "Hello"),))

    assert scripted_model.answer(request).tool_calls == ()


def test_a_prompt_without_messages_gets_random_words() -> None:
    request = simulator.ModelRequest(encode("x"), seed=3)

    assert scripted_model.answer(request) == simulator.RandomModel().answer(request)
